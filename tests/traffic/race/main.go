// A client of net/http that sends two requests on a kept connection, of each method, to 127.0.0.1:PORT. It
// prints what it observed as JSON.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func ask(client *http.Client, method string) string {
	var body io.Reader
	if method == "POST" {
		body = strings.NewReader("body")
	}
	request, err := http.NewRequest(method, "http://127.0.0.1:"+os.Args[1]+"/", body)
	if err != nil {
		panic(err)
	}
	answer, err := client.Do(request)
	if errors.Is(err, io.EOF) {
		return "closed"
	} else if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(answer.Body)
	return fmt.Sprint(answer.StatusCode, " ", string(text), " ", err)
}

func main() {
	seen := map[string]string{}
	for _, method := range []string{"GET", "POST"} {
		client := &http.Client{Transport: &http.Transport{}}
		seen[method] = ask(client, method) + "; " + ask(client, method)
	}
	json.NewEncoder(os.Stdout).Encode(seen)
}
