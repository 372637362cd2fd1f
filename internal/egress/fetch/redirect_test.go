package fetch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
)

func TestRedirectsAreFollowedToTheLastAnswer(t *testing.T) {
	s := newStand(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Host + r.URL.Path {
		case "allowed.test/a":
			http.Redirect(w, r, "b/../c?x=1#frag", http.StatusMovedPermanently)
		case "allowed.test/c":
			http.Redirect(w, r, "//OTHER.test./d e", http.StatusSeeOther)
		case "other.test/d e":
			http.Redirect(w, r, "https://example.com/f", http.StatusPermanentRedirect)
		case "example.com/f":
			send(t, w, []byte("here"))
		}
	})
	g := s.url("http://allowed.test/a")
	want := []string{"http://allowed.test/a", "http://allowed.test/c?x=1", "http://other.test/d%20e"}
	if string(g.body) != "here" || g.URL != "https://example.com/f" || g.Status != 200 || fmt.Sprint(g.Hops) != fmt.Sprint(want) {
		t.Errorf("%+v %q", g.Fetched, g.body)
	}
	s.wantDials("allowed.test:80", "allowed.test:80", "other.test:80", "example.com:443")
	for _, r := range s.hits {
		if r.Header.Get("Referer") != "" {
			t.Errorf("a referrer: %v", r.Header)
		}
	}
}

func TestRedirectsHaveAnEnd(t *testing.T) {
	s := newStand(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Path+"x")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	g := s.url("http://allowed.test/")
	if !strings.Contains(g.Failure, "more than 5 redirects") || len(g.Hops) != 6 || len(s.dials) != 6 || g.Status != 307 {
		t.Errorf("%+v, %d dials", g.Fetched, len(s.dials))
	}
}

func TestRedirectFromHTTPSToHTTPIsRefused(t *testing.T) {
	s := newStand(t, web(t))
	g := s.url("https://example.com/to?u=http://example.com/")
	if !strings.Contains(g.Failure, "it leads from https to http") || g.Refused != nil {
		t.Errorf("%+v", g.Fetched)
	}
	s.wantDials("example.com:443")
	if g := s.url("http://example.com/to?u=https://example.com/"); g.Failure != "" || string(g.body) != "ok" {
		t.Errorf("http to https: %+v", g.Fetched)
	}
}

func TestRedirectIsJudgedByTheListOfTheCall(t *testing.T) {
	s := newStand(t, web(t))
	pol := listed(t, envelope.Allow{Host: "allowed.test", Ports: []int{80}})
	for _, to := range []string{"http://other.test/", "http://allowed.test:8080/", "https://allowed.test/"} {
		s.dials = nil
		g := s.get(pol, envelope.Fetch{URL: "http://allowed.test/to?u=" + to})
		if !strings.Contains(g.Failure, "redirect to "+to+" refused") || !strings.Contains(g.Failure, "network.allow") {
			t.Errorf("%+v", g.Fetched)
		}
		s.wantDials("allowed.test:80")
	}
	url := "http://other.test/"
	wantRefused(t, s.get(pol, envelope.Fetch{URL: url}), url, "no entry of network.allow covers it")
}

func TestAnswersThatSendNowhereAreAnswers(t *testing.T) {
	s := newStand(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscan(r.URL.Path[1:], &code)
		if code >= 300 && code != 302 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(code)
	})
	for _, code := range []int{200, 201, 204, 300, 302, 304, 305, 306, 404, 500} {
		g := s.url(fmt.Sprintf("http://allowed.test/%d", code))
		if g.Status != code || g.Failure != "" || len(g.Hops) > 1 {
			t.Errorf("%d: %+v", code, g.Fetched)
		}
	}
}

func TestSeveralPlacesAreRefused(t *testing.T) {
	f := canned("HTTP/1.1 302 Found\r\nLocation: http://allowed.test/a\r\nLocation: http://allowed.test/b\r\n\r\n")
	g := f.run(t, "http://allowed.test/")
	if !strings.Contains(g.Failure, "the answer names several places") {
		t.Errorf("%+v", g)
	}
}

func TestHostThatCannotBeReachedIsAFailure(t *testing.T) {
	s := newStand(t, web(t))
	s.deny["other.test:80"] = "resolved address not allowed: 10.0.0.1: 10.0.0.1 is private"
	for url, want := range map[string]string{
		"http://nowhere.test/":                          "could not get http://nowhere.test/: the name has no address",
		"http://other.test/":                            "other.test is not allowed: resolved address not allowed: 10.0.0.1",
		"http://allowed.test/to?u=http://nowhere.test/": "could not get http://nowhere.test/: the name has no address",
		"http://allowed.test/to?u=http://other.test/":   "other.test is not allowed: resolved address not allowed: 10.0.0.1",
		"https://allowed.test/":                         "certificate is valid for",
	} {
		g := s.url(url)
		if !strings.Contains(g.Failure, want) || g.Refused != nil {
			t.Errorf("%s: %+v", url, g.Fetched)
		}
	}
}

func TestAddressOfThisHostIsRefusedWhereItIsDialled(t *testing.T) {
	s := newStand(t, web(t))
	s.deny["93.184.216.34:80"] = "resolved address not allowed: it is an address of this host"
	url := "http://93.184.216.34/"
	wantRefused(t, s.url(url), url, "it is an address of this host")
}

func TestCertificateMustBeOfTheRoots(t *testing.T) {
	s := newStand(t, web(t))
	s.o.Roots = x509.NewCertPool()
	if g := s.url("https://example.com/"); !strings.Contains(g.Failure, "certificate") || g.Status != 0 {
		t.Errorf("%+v", g.Fetched)
	}
	if len(s.hits) > 0 {
		t.Error("it was asked")
	}
}

func TestCallerEndsAFetch(t *testing.T) {
	s := newStand(t, web(t))
	ctx, cancel := context.WithCancel(t.Context())
	pieces := 0
	out := s.Fetch(ctx, "", s.public, wire.Fetch{Fetch: envelope.Fetch{URL: "http://allowed.test/flow"}}, func([]byte) error {
		pieces++
		cancel()
		return nil
	})
	if !strings.Contains(out.Failure, "given up") || pieces > 3 || !out.Cut {
		t.Errorf("%d pieces, %+v", pieces, out)
	}
	out = s.Fetch(t.Context(), "", s.public, wire.Fetch{Fetch: envelope.Fetch{URL: "http://allowed.test/flow"}}, func([]byte) error {
		return errors.New("gone\n")
	})
	if out.Failure != "could not read the answer: it could not be handed on: gone?" {
		t.Errorf("%+v", out)
	}
}
