// A client of net/http. It runs every case against 127.0.0.1:PORT and prints what it observed as JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"sort"
	"strings"
	"syscall"
	"time"
)

var base string

func client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{ExpectContinueTimeout: 10 * time.Second, MaxResponseHeaderBytes: 1 << 20},
		Timeout:   30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

func fields(header http.Header) []string {
	lines := []string{}
	for name, values := range header {
		switch name {
		case "Date", "Connection", "Server", "Keep-Alive":
			continue
		}
		for _, value := range values {
			lines = append(lines, fmt.Sprintf("%s: %q", name, value))
		}
	}
	sort.Strings(lines)
	return lines
}

func failure(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.ECONNRESET):
		return " reset"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return " unexpected EOF"
	case errors.Is(err, io.EOF):
		return " EOF"
	}
	return " " + err.Error()
}

func short(body []byte) string {
	if len(body) > 2000 {
		return fmt.Sprintf("%d bytes", len(body))
	}
	return string(body)
}

func shown(answer *http.Response, err error) string {
	if err != nil {
		return "no answer:" + failure(err)
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	lines := fields(answer.Header)
	if len(lines) > 20 {
		lines = []string{fmt.Sprint(len(lines), " fields")}
	}
	return fmt.Sprintf("%s %s length %d coding %v %v body %s%s trailers %v", answer.Proto, answer.Status,
		answer.ContentLength, answer.TransferEncoding, lines, short(body), failure(err), fields(answer.Trailer))
}

func ask(method, path string, body io.Reader, header ...string) string {
	request, err := http.NewRequest(method, base+path, body)
	if err != nil {
		return err.Error()
	}
	var interim []string
	request = request.WithContext(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			interim = append(interim, fmt.Sprint(code, fields(http.Header(header))))
			return nil
		},
	}))
	for at := 0; at < len(header); at += 2 {
		request.Header.Add(header[at], header[at+1])
	}
	return strings.Join(interim, "") + shown(client().Do(request))
}

// A body of unknown length.
func unknown(text string) io.Reader { return io.MultiReader(strings.NewReader(text)) }

func withTrailers() string {
	request, _ := http.NewRequest("POST", base+"/echo", unknown("body"))
	request.Trailer = http.Header{"X-Sum": {"4"}}
	return shown(client().Do(request))
}

func events() string {
	one := client()
	answer, err := one.Get(base + "/events")
	if err != nil {
		return err.Error()
	}
	lines := bufio.NewReader(answer.Body)
	first, err := lines.ReadString('\n')
	released := shown(client().Post(base+"/release", "", nil))
	rest, after := io.ReadAll(lines)
	return fmt.Sprintf("%q%s %s %q%s", first, failure(err), released, rest, failure(after))
}

// The application closes behind this answer, and says so.
func last() string {
	answer, err := client().Get(base + "/last")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(answer.Close, " ", shown(answer, nil))
}

func upgrade() string {
	request, _ := http.NewRequest("GET", base+"/upgrade", nil)
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "websocket")
	request.Header.Set("Sec-WebSocket-Key", "a key")
	answer, err := client().Transport.RoundTrip(request)
	if err != nil {
		return err.Error()
	}
	tunnel, ok := answer.Body.(io.ReadWriteCloser)
	if !ok {
		return shown(answer, nil)
	}
	fmt.Fprint(tunnel, "world")
	heard := make([]byte, 11)
	_, err = io.ReadFull(tunnel, heard)
	tunnel.Close()
	return fmt.Sprintf("%s %v %s%s", answer.Status, fields(answer.Header), heard, failure(err))
}

// Gives the request up once the application has it.
func givenUp(path, begun string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var body io.Reader
	if begun != "" {
		reader, writer := io.Pipe()
		go writer.Write([]byte(begun))
		// The transport waits for the reader of the body.
		context.AfterFunc(ctx, func() { writer.CloseWithError(ctx.Err()) })
		body = reader
	}
	request, _ := http.NewRequestWithContext(ctx, "POST", base+path, body)
	_, err := client().Do(request)
	return fmt.Sprint(errors.Is(err, context.DeadlineExceeded), " ", ask("GET", "/noted", nil))
}

// Several requests on one connection, with everything that may end a body in between.
func kept() string {
	one := client()
	connections := map[string]bool{}
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		connections[got.Conn.LocalAddr().String()] = true
	}}
	seen := ""
	for _, path := range []string{"/echo", "/none/204", "/none/304", "/trailers", "/none/205", "/large", "/echo"} {
		request, _ := http.NewRequest("GET", base+path, nil)
		answer, err := one.Do(request.WithContext(httptrace.WithClientTrace(context.Background(), trace)))
		if err != nil {
			return seen + failure(err)
		}
		body, err := io.ReadAll(answer.Body)
		seen += fmt.Sprint(answer.StatusCode, " ", short(body), failure(err), "; ")
	}
	return fmt.Sprint(seen, len(connections), " connections")
}

func wire(text string) string {
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	fmt.Fprint(conn, text)
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	answers, seen := bufio.NewReader(conn), ""
	for {
		if _, err := answers.Peek(1); err != nil {
			return seen + failure(err)
		}
		answer, err := http.ReadResponse(answers, nil)
		seen += shown(answer, err) + "; "
		if err != nil {
			return seen
		}
	}
}

func main() {
	base = "http://127.0.0.1:" + os.Args[1]
	head := " HTTP/1.1\r\nHost: a\r\n"
	cases := map[string]func() string{
		"get": func() string {
			return ask("GET", "/echo?a=%20b&c=d|e", nil, "X-Empty", "", "X-Latin", "caf\xe9", "X-Two", "1", "X-Two", "2")
		},
		"post":            func() string { return ask("POST", "/echo", strings.NewReader("body")) },
		"empty":           func() string { return ask("POST", "/echo", nil) },
		"chunks":          func() string { return ask("PUT", "/echo", unknown("body")) },
		"options":         func() string { return ask("OPTIONS", "/echo", nil) },
		"delete":          func() string { return ask("DELETE", "/echo", strings.NewReader("body")) },
		"get body":        func() string { return ask("GET", "/echo", strings.NewReader("body")) },
		"own verb":        func() string { return ask("PROPFIND", "/echo", unknown("<a/>"), "Depth", "1") },
		"trailers":        withTrailers,
		"long path":       func() string { return ask("GET", "/echo?"+strings.Repeat("q", 30000), nil) },
		"expect":          func() string { return ask("POST", "/echo", strings.NewReader("body"), "Expect", "100-continue") },
		"expect no":       func() string { return ask("POST", "/denied", strings.NewReader("body"), "Expect", "100-continue") },
		"phrase":          func() string { return ask("GET", "/phrase", nil) },
		"bare":            func() string { return ask("GET", "/bare", nil) },
		"fields":          func() string { return ask("GET", "/fields", nil) },
		"hints":           func() string { return ask("GET", "/hints", nil) },
		"head":            func() string { return ask("HEAD", "/head", nil) },
		"head body":       func() string { return ask("HEAD", "/large", nil) },
		"204":             func() string { return ask("GET", "/none/204", nil) },
		"205":             func() string { return ask("GET", "/none/205", nil) },
		"304":             func() string { return ask("GET", "/none/304", nil) },
		"answer trailers": func() string { return ask("GET", "/trailers", nil) },
		"te":              func() string { return ask("GET", "/trailers", nil, "TE", "trailers") },
		"large":           func() string { return ask("GET", "/large", nil) },
		"reset":           func() string { return ask("GET", "/reset", nil) },
		"cut":             func() string { return ask("GET", "/cut", nil) },
		"last":            last,
		"early":           func() string { return ask("POST", "/early", unknown(strings.Repeat("z", 300000))) },
		"events":          events,
		"upgrade":         upgrade,
		"upload given up": func() string { return givenUp("/upload", "half") },
		"wait given up":   func() string { return givenUp("/wait", "") },
		"kept":            kept,
		"pipelined": func() string {
			get := "GET /echo" + head
			return wire(get + "\r\n" + get + "\r\nGET /none/204" + head + "\r\n" + get + "Connection: close\r\n\r\n")
		},
		"small chunks": func() string {
			return wire("POST /echo" + head + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n1;a=b\r\nx\r\n0002\r\nyz\r\n0\r\n\r\n")
		},
	}
	seen := map[string]string{}
	for name, run := range cases {
		seen[name] = run()
	}
	json.NewEncoder(os.Stdout).Encode(seen)
}
