package cli_test

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDaemonTakesASocketOver plays systemd: it listens, and a client comes, before
// there is a daemon. The daemon serves that socket and no other, says when it is
// ready, and leaves the socket as it was for the next one.
func TestDaemonTakesASocketOver(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	told := filepath.Join(t.TempDir(), "notify")
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: told, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()
	for range 2 {
		early := make(chan error, 1)
		go func() { early <- asksHealth("http://" + l.Addr().String()) }()
		cmd := exec.Command("/bin/sh", append([]string{"-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"`, "sh", filepath.Join(bin, "callcell")}, serveArgs(conf)...)...)
		cmd.ExtraFiles = []*os.File{socket}
		cmd.Env = append(cmd.Environ(), "NOTIFY_SOCKET="+told)
		d := startBy(t, cmd)
		if d.address != "http://"+l.Addr().String() {
			t.Errorf("it serves %s", d.address)
		}
		if err := <-early; err != nil {
			t.Errorf("who came before it: %v", err)
		}
		word := make([]byte, 64)
		if err := notify.SetReadDeadline(time.Now().Add(soon)); err != nil {
			t.Fatal(err)
		}
		if n, err := notify.Read(word); err != nil || string(word[:n]) != "READY=1" {
			t.Errorf("it tells %q, %v", word[:n], err)
		}
		if err := d.end(syscall.SIGTERM); err != nil {
			t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
		}
	}
}

// asksHealth waits for a daemon's word that it is there.
func asksHealth(address string) error {
	c := http.Client{Timeout: 3 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(address + "/healthz")
	if err != nil {
		return err
	}
	return r.Body.Close()
}
