package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
)

// answering is a daemon that answers everything with one status and text.
func answering(t *testing.T, status int, text string) *remote {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return remoteAt(t, s.URL)
}

func remoteAt(t *testing.T, address string) *remote {
	t.Helper()
	c, err := client.New(address, "cck_x")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return &remote{c, address}
}

// TestNoResultIsMadeOfWhatIsNoAnswer: whoever listens where the daemon should does
// not get a call taken for one that went well, or a file saved that nobody asked for.
func TestNoResultIsMadeOfWhatIsNoAnswer(t *testing.T) {
	call := &envelope.Call{Argv: []string{"true"}, Outputs: []string{"out.txt", "dir/"}}
	for text, good := range map[string]bool{
		`{}`:                             false,
		`null`:                           false,
		`{"refusal":{}}`:                 false,
		`{"refusal":{"reason":"setup"}}`: true,
		`{"outcome":"completed"}`:        true,
		`{"outcome":"memory"}`:           true,
		`{"outcome":"wall_time","exit":{"code":-1,"signal":"SIGKILL"}}`:          true,
		`{"outcome":"completed","exit":{"code":255}}`:                            true,
		`{"outcome":"completed","exit":{"code":256}}`:                            false,
		`{"outcome":"completed","exit":{"code":-1}}`:                             false,
		`{"outcome":"completed","refusal":{"reason":"setup"}}`:                   false,
		`{"outcome":"completed","outputs":[{"name":"out.txt","data":"aGk="}]}`:   true,
		`{"outcome":"completed","outputs":[{"name":"dir/a/b","data":"aGk="}]}`:   true,
		`{"outcome":"completed","outputs":[{"name":"Makefile","data":"aGk="}]}`:  false,
		`{"outcome":"completed","outputs":[{"name":"out.txt/x","data":"aGk="}]}`: false,
		`{"outcome":"completed","workspace":{"name":"notes"}}`:                   false,
	} {
		r, err := answering(t, http.StatusOK, text).run(t.Context(), call)
		var f *failure
		switch {
		case good && (err != nil || r == nil):
			t.Errorf("%s: %v", text, err)
		case !good && (r != nil || !errors.As(err, &f) || f.status != exitOwn):
			t.Errorf("%s: %+v, %v: want a failure of our own", text, r, err)
		}
	}
	for _, text := range []string{`{}`, `null`, `{"refusal":{}}`} {
		if e, err := answering(t, http.StatusOK, text).explain(t.Context(), call); err == nil {
			t.Errorf("explain: %s is taken for %+v", text, e)
		}
	}
}

// TestStatusOfAProblemIsThatOfHTTP: what the text says of its own status, or does
// not, changes nothing.
func TestStatusOfAProblemIsThatOfHTTP(t *testing.T) {
	r, err := answering(t, http.StatusUnauthorized, `{"code":"unauthorized","status":503,"detail":"who?"}`).run(t.Context(), &envelope.Call{})
	if err != nil || r.Refusal == nil || r.Refusal.Reason != envelope.ReasonPermission {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestWithoutAConnectionNothingCame: what goes wrong before there is one, TLS and
// all, refuses the call; it is not an answer that was lost.
func TestWithoutAConnectionNothingCame(t *testing.T) {
	plain, secure := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(http.NotFoundHandler())
	defer plain.Close()
	defer secure.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for what, address := range map[string]string{
		"nobody there":        "http://" + closed.Addr().String(),
		"no TLS there":        strings.Replace(plain.URL, "http:", "https:", 1),
		"a stranger's signed": secure.URL,
	} {
		r, err := remoteAt(t, address).run(t.Context(), &envelope.Call{})
		if err != nil || r.Refusal == nil || r.Refusal.Reason != envelope.ReasonSetup {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var f *failure
	if _, err := remoteAt(t, plain.URL).run(ctx, &envelope.Call{}); !errors.As(err, &f) || f.status != exitCancelled {
		t.Errorf("cancelled: %v", err)
	}
}

// TestHookWaitsNotForeverForADaemon: a client whose hook takes too long may let the
// command through, on this host. One that takes the connection and says nothing is
// given up.
func TestHookWaitsNotForeverForADaemon(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errSlow)
	defer cancel()
	_, err = (&hookFlags{Shell: "/bin/sh"}).mostThere(ctx, remoteAt(t, "http://"+mute.Addr().String()))
	if err == nil || !strings.Contains(err.Error(), errSlow.Error()) {
		t.Errorf("%v", err)
	}
}
