package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Run serves on l, which it takes over, until ctx ends. Then no connection is
// taken any more, calls under way have Serve.Shutdown to end, and what is left
// is cancelled. It returns when nothing runs.
func (a *API) Run(ctx context.Context, l net.Listener) error {
	server := a.Server()
	d := newDoor(l, maxConnections)
	server.ConnContext = d.with
	l = d
	defer d.end()
	if a.Serve.TLS.Cert != "" {
		certs := &certificate{cert: a.Serve.TLS.Cert, key: a.Serve.TLS.Key}
		if _, err := certs.get(nil); err != nil {
			return errors.Join(fmt.Errorf("serve.tls: %w", err), l.Close())
		}
		l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certs.get, NextProtos: []string{"h2", "http/1.1"}})
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		a.Close()
		return err
	case <-ctx.Done():
	}
	err := a.drain(server)
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}

// drain waits for calls under way, and cancels what takes too long.
func (a *API) drain(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.Serve.Shutdown.Std())
	defer cancel()
	a.mcp.Drain()
	idle := make(chan struct{})
	go func() { a.jobs.wait(); close(idle) }()
	err := server.Shutdown(ctx)
	select {
	case <-idle:
	case <-ctx.Done():
		a.Log.Warn("calls are cancelled: the time to end is over")
	}
	a.Close()
	<-idle
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // they were cancelled; who reads slowly is cut off
	}
	return errors.Join(err, server.Close())
}

// A certificate is read from its files, and again when they have changed.
type certificate struct {
	cert, key string

	mu   sync.Mutex // guards what follows
	at   time.Time  // of the newer of the files
	have *tls.Certificate
}

// get is tls.Config.GetCertificate. Where files that have changed cannot be
// read, the certificate that there is stays.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, err := newest(c.cert, c.key)
	if err == nil && c.have != nil && at.Equal(c.at) {
		return c.have, nil
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(c.cert, c.key)
	}
	switch {
	case err == nil:
		c.have, c.at = &pair, at
	case c.have == nil:
		return nil, err
	}
	return c.have, nil
}

func newest(paths ...string) (at time.Time, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return time.Time{}, err
		}
		if info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at, nil
}
