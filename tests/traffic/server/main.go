// An application of net/http. It prints its port, and serves until its standard input ends.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sort"
	"strings"
	"syscall"
	"time"
)

// What became of requests whose clients cannot be told.
var noted = make(chan string, 100)

// Lets the second event go.
var release = make(chan struct{}, 1)

func own(name string) bool {
	name = strings.ToLower(name)
	for _, left := range []string{"connection", "forwarded", "host", "http2-settings", "l5d-client-id", "l5d-connection-secure", "upgrade"} {
		if name == left {
			return false
		}
	}
	return true
}

func fields(header http.Header) []string {
	lines := []string{}
	for name, values := range header {
		for _, value := range values {
			if own(name) {
				lines = append(lines, fmt.Sprintf("%s: %q", name, value))
			}
		}
	}
	sort.Strings(lines)
	return lines
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "whole"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut"
	}
	return err.Error()
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	json.NewEncoder(w).Encode(map[string]any{
		"method": r.Method, "target": r.RequestURI, "version": r.Proto, "fields": fields(r.Header),
		"length": r.ContentLength, "coding": r.TransferEncoding, "body": string(body),
		"trailers": fields(r.Trailer), "read": outcome(err),
	})
}

func hijacked(w http.ResponseWriter) (*net.TCPConn, *bufio.ReadWriter) {
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	return conn.(*net.TCPConn), buffered
}

func serve(mux *http.ServeMux) {
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/fields", func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Set-Cookie", "a=1; Path=/")
		h.Add("Set-Cookie", "b=2")
		h["x-MiXed"] = []string{"as it is", ""}
		h.Set("X-Latin", "caf\xe9")
		h.Set("Content-Encoding", "identity")
		h.Set("Vary", "Accept-Encoding")
		fmt.Fprint(w, "fields")
	})
	mux.HandleFunc("/phrase", func(w http.ResponseWriter, r *http.Request) {
		conn, _ := hijacked(w)
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 299 Odd: thing\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
	})
	mux.HandleFunc("/bare", func(w http.ResponseWriter, r *http.Request) {
		conn, _ := hijacked(w)
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 299 \r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
	})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		fmt.Fprint(w, "hinted")
	})
	mux.HandleFunc("/denied", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "denied", http.StatusUnauthorized)
	})
	mux.HandleFunc("/head", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "12345")
	})
	mux.HandleFunc("/none/", func(w http.ResponseWriter, r *http.Request) {
		var status int
		fmt.Sscan(strings.TrimPrefix(r.URL.Path, "/none/"), &status)
		w.Header().Set("ETag", `"a"`)
		w.WriteHeader(status)
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, "body")
		w.(http.Flusher).Flush()
		w.Header().Set("X-Sum", "4")
		w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) {
		for n := range 40 {
			w.Header().Set(fmt.Sprintf("X-Large-%d", n), strings.Repeat("x", 1000))
		}
		fmt.Fprint(w, strings.Repeat("y", 1000000))
	})
	mux.HandleFunc("/reset", func(w http.ResponseWriter, r *http.Request) {
		conn, _ := hijacked(w)
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		time.Sleep(100 * time.Millisecond)
		conn.SetLinger(0)
		conn.Close()
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/last", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, "last")
	})
	mux.HandleFunc("/until-close", func(w http.ResponseWriter, r *http.Request) {
		conn, _ := hijacked(w)
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nto the end")
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-release
		fmt.Fprint(w, "data: 2\n\n")
	})
	mux.HandleFunc("/release", func(w http.ResponseWriter, r *http.Request) {
		release <- struct{}{}
	})
	mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		fmt.Fprint(w, "early")
		w.(http.Flusher).Flush()
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, " and %d %s", len(body), outcome(err))
	})
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		noted <- outcome(err)
	})
	mux.HandleFunc("/wait", func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		noted <- "given up"
	})
	mux.HandleFunc("/noted", func(w http.ResponseWriter, r *http.Request) {
		select {
		case note := <-noted:
			fmt.Fprint(w, note)
		case <-time.After(20 * time.Second):
			fmt.Fprint(w, "nothing")
		}
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, r *http.Request) {
		conn, buffered := hijacked(w)
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\nhello ",
			r.Header.Get("Upgrade"), r.Header.Get("Sec-Websocket-Key"))
		io.Copy(conn, buffered)
	})
}

func main() {
	mux := http.NewServeMux()
	serve(mux)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := http.Server{Handler: mux, MaxHeaderBytes: 1 << 20, ErrorLog: log.New(io.Discard, "", 0)}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go server.Serve(listener)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	io.Copy(io.Discard, os.Stdin)
}
