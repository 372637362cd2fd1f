// Command authority makes requests on one connection of HTTP/2, each with the
// authority that it is told, and prints how each went:
//
//	authority URL HOST...
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"time"
)

func main() {
	client := &http.Client{Timeout: 10 * time.Second}
	for _, host := range os.Args[2:] {
		fmt.Println(host, try(client, os.Args[1], host))
	}
}

func try(client *http.Client, url, host string) string {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	conn := "new"
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if i.Reused {
			conn = "same"
		}
	}}
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), trace))
	r.Host = host
	answer, err := client.Do(r)
	if err != nil {
		return conn + " " + err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return fmt.Sprintf("%s %s %d %q %v", conn, answer.Proto, answer.StatusCode, body, err)
}
