package world

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// A Hit is one request to a server.
type Hit struct {
	At     netip.AddrPort // of the server
	SNI    string         // the name that TLS asked for
	Method string
	Host   string
	Path   string // and query
	Proto  string
	Header string // as it came, a line each, sorted
}

// An Echo is what /echo says of the request.
type Echo struct {
	SNI     string      `json:"sni"`
	Method  string      `json:"method"`
	Host    string      `json:"host"`
	Path    string      `json:"path"`
	Proto   string      `json:"proto"`
	Headers http.Header `json:"headers"`
	Body    string      `json:"body"`
}

// web is what every web server of the world answers, whatever its name:
//
//	/echo, /repos/    the request, as an Echo; as=gzip or as=base64 encodes it
//	/to?u=URL         a redirect there, with the status code= or 302
//	/refresh?u=URL    a page with a Refresh header
//	/say?text=T       T, as type= (text/plain), with Cache-Control cache=
//	/size?n=N         N bytes
//	/bomb?mb=N        N MiB of zeros, as gzip
//	/flow             bytes without end
//	/drip             a byte a second, without end
//	/latch?name=N     a byte a second, and its end once World.Release has said N
//	/header?mb=N      N MiB of headers
//	/upgrade          another protocol, whichever is asked for; the next bytes
//	                  are a Hit of the method RAW, with them as its path
//	/ws               WebSocket that says back what it is told
//	/git/repo.git     a repository
//	/simple/          an index of Python packages, see Wheels
//	/npm/             a registry of JavaScript packages
//	/v2/              a registry of images, see Push
//
// and at any other path the word ok.
func (s *services) web(git http.Handler) http.Handler {
	m := http.NewServeMux()
	var packages http.Handler
	s.wheels, packages = index()
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	m.HandleFunc("/echo", echo)
	m.HandleFunc("/repos/", echo)
	m.HandleFunc("/to", redirect)
	m.HandleFunc("/refresh", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Refresh", "0;url="+r.FormValue("u"))
		io.WriteString(w, "wait\n")
	})
	m.HandleFunc("/say", say)
	m.HandleFunc("/size", func(w http.ResponseWriter, r *http.Request) {
		repeat(w, bytes.Repeat([]byte("x"), 1000), number(r, "n")/1000)
	})
	m.HandleFunc("/bomb", bomb)
	m.HandleFunc("/flow", func(w http.ResponseWriter, _ *http.Request) { repeat(w, make([]byte, 64<<10), -1) })
	m.HandleFunc("/drip", drip)
	m.HandleFunc("/latch", s.latched)
	m.HandleFunc("/header", header)
	m.HandleFunc("/upgrade", s.upgrade)
	m.HandleFunc("/ws", socket)
	m.Handle("/git/", git)
	m.Handle("/simple/", packages)
	m.Handle("/npm/", registry())
	m.Handle("/debian/", debian())
	m.Handle("/v2/", s.images)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.hit(r)
		m.ServeHTTP(w, r)
	})
}

// Wheels has the index of Python packages have the wheels of a directory, too.
func (w *World) Wheels(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err == nil && len(names) == 0 {
		err = errors.New("no wheels in " + dir)
	}
	for _, name := range names {
		data, failed := os.ReadFile(name)
		err = errors.Join(err, failed)
		w.services.wheels.add(filepath.Base(name), data)
	}
	return err
}

// latched answers a byte a second meanwhile, so that no connection is idle.
func (s *services) latched(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-s.latch(r.FormValue("name")):
			io.WriteString(w, "ok\n")
			return
		case <-r.Context().Done():
			return
		case <-tick.C:
			io.WriteString(w, ".")
			if http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	}
}

func (s *services) hit(r *http.Request) {
	h := Hit{Method: r.Method, Host: r.Host, Path: r.RequestURI, Proto: r.Proto}
	var header strings.Builder
	if r.Header.Write(&header) == nil {
		h.Header = header.String()
	}
	if r.TLS != nil {
		h.SNI = r.TLS.ServerName
	}
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(interface{ String() string }); ok {
		if addr, err := netip.ParseAddrPort(at.String()); err == nil {
			h.At = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits = append(s.hits, h)
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	e := Echo{Method: r.Method, Host: r.Host, Path: r.RequestURI, Proto: r.Proto, Headers: r.Header, Body: string(body)}
	if r.TLS != nil {
		e.SNI = r.TLS.ServerName
	}
	w.Header().Set("Content-Type", "application/json")
	out := io.Writer(w)
	switch r.URL.Query().Get("as") {
	case "gzip":
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		out = z
	case "base64":
		b := base64.NewEncoder(base64.StdEncoding, w)
		defer b.Close()
		out = b
	}
	json.NewEncoder(out).Encode(e)
}

func redirect(w http.ResponseWriter, r *http.Request) {
	code := number(r, "code")
	if code == 0 {
		code = http.StatusFound
	}
	w.Header().Set("Location", r.FormValue("u")) // as it is: http.Redirect would mend it
	w.WriteHeader(code)
}

func say(w http.ResponseWriter, r *http.Request) {
	kind := r.FormValue("type")
	if kind == "" {
		kind = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	if cache := r.FormValue("cache"); cache != "" {
		w.Header().Set("Cache-Control", cache)
	}
	io.WriteString(w, r.FormValue("text"))
}

// bomb is members of one MiB each: what follows another is read on.
func bomb(w http.ResponseWriter, r *http.Request) {
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	if _, err := z.Write(make([]byte, 1<<20)); err != nil || z.Close() != nil {
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	repeat(w, member.Bytes(), number(r, "mb"))
}

// repeat writes a piece n times, or, where n is negative, until nobody reads.
func repeat(w http.ResponseWriter, piece []byte, n int) {
	for ; n != 0; n-- {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

func drip(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if _, err := io.WriteString(w, "x"); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

func header(w http.ResponseWriter, r *http.Request) {
	line := strings.Repeat("h", 64<<10)
	for i := range number(r, "mb") * 16 {
		w.Header().Set("X-"+strconv.Itoa(i), line)
	}
	io.WriteString(w, "ok\n")
}

func (s *services) upgrade(w http.ResponseWriter, r *http.Request) {
	protocol := r.Header.Get("Upgrade")
	if protocol == "" {
		io.WriteString(w, "ok\n")
		return
	}
	c, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprintf(buf, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
	if buf.Flush() != nil || c.SetReadDeadline(time.Now().Add(2*time.Second)) != nil {
		return
	}
	raw, err := buf.ReadBytes('\n')
	if len(raw) > 0 || err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hits = append(s.hits, Hit{Method: "RAW", Path: string(raw)})
	}
}

func socket(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	for {
		kind, data, err := c.Read(r.Context())
		if err != nil {
			return
		}
		if err := c.Write(r.Context(), kind, data); err != nil {
			return
		}
	}
}

// number is a parameter of the request, at least 0.
func number(r *http.Request, name string) int {
	n, err := strconv.Atoi(r.FormValue(name))
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// silent is for servers: what a client of theirs does wrong is not theirs to
// print.
func silent() *log.Logger { return log.New(io.Discard, "", 0) }

// missing answers where a part of the world could not be made.
func missing(err error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, errors.Join(errors.New("not in this world"), err).Error(), http.StatusNotImplemented)
	})
}
