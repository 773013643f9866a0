// A server of net/http with its default settings, which answers every request with what it read.
//
// Prints its version and its port, then serves until its standard input ends.
package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
)

func field(name, value string) string {
	return name + "=" + hex.EncodeToString([]byte(value)) + ","
}

// A mux whose patterns split a path as those of an application do.
func router() *http.ServeMux {
	mux := http.NewServeMux()
	for _, pattern := range []string{"/{$}", "/{first}", "/{first}/{rest...}"} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Mux", field("mux", "/"+strings.TrimSuffix(r.PathValue("first")+" "+r.PathValue("rest"), " ")))
		})
	}
	return mux
}

// Keeps the headers of an answer and nothing else.
type headers struct{ kept http.Header }

func (h headers) Header() http.Header           { return h.kept }
func (h headers) Write(part []byte) (int, error) { return len(part), nil }
func (h headers) WriteHeader(int)               {}

// What the mux makes of a request: the values of its wildcards, a redirection, or nothing.
func routed(mux *http.ServeMux, r *http.Request) (said string) {
	// PathValue of CONNECT with a URL panics.
	defer func() {
		if recover() != nil {
			said = ""
		}
	}()
	answer := headers{http.Header{}}
	mux.ServeHTTP(answer, r.Clone(r.Context()))
	if to := answer.kept.Get("Location"); to != "" {
		return field("redirect", to)
	}
	return answer.kept.Get("Mux")
}

func main() {
	mux := router()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		read := "Routed: " + field("method", r.Method) + field("target", r.RequestURI) +
			field("path", r.URL.Path) + field("escaped", r.URL.EscapedPath()) + routed(mux, r) + ";"
		w.Header().Set("Routed", strings.TrimPrefix(read, "Routed: "))
		io.WriteString(w, read)
	}
	fmt.Println(runtime.Version(), listener.Addr().(*net.TCPAddr).Port)
	go http.Serve(listener, http.HandlerFunc(handler))
	io.Copy(io.Discard, os.Stdin)
}
