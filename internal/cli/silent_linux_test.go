package cli_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
)

// TestSilentConnectionsKeepNobodyOut: 2,000 connections that say nothing, or the
// half of a head, and are opened anew when they are cut, while a client with a
// key makes calls over connections of its own. The daemon gives the silent ones a
// minute; the calls are made before that all the same, and it holds no more
// connections than it may.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	const silent, most = 2000, 1024
	bin := binaries(t)
	conf, _ := stand(t)
	reviewed(t, conf)
	addTo(t, conf, "serve: {header: 1m}\n")
	secret := secretOf(t, bin, conf, "call")
	d := startDaemon(t, bin, conf)
	defer func() { _ = d.cmd.Process.Kill() }() // it has ended, unless the test has failed
	address := strings.TrimPrefix(d.address, "http://")
	var all sync.WaitGroup
	leave := make(chan struct{})
	opened := make(chan struct{}, silent)
	for i := range silent {
		all.Go(func() { beSilent(address, i%2 == 1, opened, leave) })
	}
	for range silent {
		<-opened
	}
	c, err := client.New(d.address, secret)
	if err != nil {
		t.Fatal(err)
	}
	c.HTTP.Transport = &http.Transport{DisableKeepAlives: true}
	c.HTTP.Timeout = 45 * time.Second
	for range 10 {
		r, err := c.Run(t.Context(), &envelope.Call{Argv: []string{"echo", "hello"}})
		if err != nil || !r.OK() {
			t.Errorf("%+v %v", r, err)
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid))
	if err != nil || len(fds) > most+128 || len(fds) < most/2 {
		t.Errorf("the daemon has %d descriptors, %v", len(fds), err)
	}
	close(leave)
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
	all.Wait()
}

// TestHalfOpenConnectionsAreOfNoWeight: ten thousand connections, each with as much
// of a head as is taken, of which as many are open at once as the daemon lets in:
// its memory is bounded, and a call is made. It takes 30 to 130 MiB, as the
// collector comes to it; all ten thousand would take 450.
func TestHalfOpenConnectionsAreOfNoWeight(t *testing.T) {
	const all, atOnce, most = 10_000, 1500, 384 * envelope.MiB
	bin := binaries(t)
	conf, _ := stand(t)
	reviewed(t, conf)
	addTo(t, conf, "serve: {header: 1m}\n")
	secret := secretOf(t, bin, conf, "call")
	d := startDaemon(t, bin, conf)
	c := connect(t, d.address, secret)
	defer c.HTTP.CloseIdleConnections()
	if r, err := c.Run(t.Context(), &envelope.Call{Argv: []string{"echo", "hello"}}); err != nil || !r.OK() {
		t.Fatalf("%+v %v", r, err)
	}
	before := mostHeld(t, bin)[d.cmd.Process.Pid]
	head := []byte("GET /v1/calls HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + strings.Repeat("x", 31<<10))
	held := make(chan net.Conn, atOnce)
	for range all {
		if len(held) == cap(held) {
			_ = (<-held).Close()
		}
		conn, err := net.Dial("tcp", strings.TrimPrefix(d.address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetWriteDeadline(time.Now().Add(time.Minute))
		_, _ = conn.Write(head) // or it was cut
		held <- conn
	}
	if r, err := c.Run(t.Context(), &envelope.Call{Argv: []string{"echo", "hello"}}); err != nil || !r.OK() {
		t.Errorf("%+v %v", r, err)
	}
	if more := mostHeld(t, bin)[d.cmd.Process.Pid] - before; before == 0 || more > most {
		t.Errorf("the daemon took %d MiB more than %d", more>>20, before>>20)
	} else {
		t.Logf("the daemon took %d MiB more than %d", more>>20, before>>20)
	}
	for range len(held) {
		_ = (<-held).Close()
	}
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
}

// beSilent has a connection, or another one when it is cut, until leave is
// closed. half has it send some of a head.
func beSilent(address string, half bool, opened chan<- struct{}, leave <-chan struct{}) {
	for first := true; ; first = false {
		c, err := net.Dial("tcp", address)
		if err == nil && half {
			_, err = c.Write([]byte("GET /v1/calls HTTP/1.1\r\nHost: "))
		}
		if first {
			opened <- struct{}{}
		}
		if err == nil {
			over := make(chan struct{})
			go func() {
				defer close(over)
				_, _ = c.Read(make([]byte, 1)) // the cut
			}()
			select {
			case <-over:
			case <-leave:
			}
			_ = c.Close()
			<-over
		}
		again := time.NewTimer(5 * time.Second)
		select {
		case <-leave:
			return
		case <-again.C:
		}
	}
}
