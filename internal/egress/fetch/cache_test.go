package fetch

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
)

// counted is a stand whose answers are 1, 2, 3 ...
func counted(t *testing.T, header http.Header) *stand {
	var n atomic.Int64
	return newStand(t, func(w http.ResponseWriter, r *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		if r.URL.Path == "/to" {
			w.Header().Set("Location", r.URL.Query().Get("u"))
			w.WriteHeader(http.StatusFound)
			return
		}
		if r.URL.Path == "/404" {
			w.WriteHeader(http.StatusNotFound)
		}
		send(t, w, []byte(fmt.Sprint(n.Add(1))))
	})
}

func TestCacheKeepsWhatIsPublicForItsTime(t *testing.T) {
	s := counted(t, nil)
	want := func(body string, cached bool) {
		t.Helper()
		if g := s.url("http://allowed.test/"); string(g.body) != body || g.Cached != cached || g.Bytes != 1 || g.Type != "text/plain" {
			t.Errorf("%q, want %q, cached %v; %+v", g.body, body, cached, g.Fetched)
		}
	}
	want("1", false)
	want("1", true)
	s.now = s.now.Add(2*time.Minute - 1)
	want("1", true)
	s.now = s.now.Add(1)
	want("2", false)
	if g := s.get(s.public, envelope.Fetch{URL: "http://allowed.test/", Fresh: true}); string(g.body) != "3" || g.Cached {
		t.Errorf("fresh: %+v", g.Fetched)
	}
	want("3", true) // fresh replaced it
	for i, req := range []envelope.Fetch{{URL: "http://allowed.test/?"}, {URL: "http://allowed.test/", Bytes: 100}, {URL: "http://allowed.test/", Text: true}, {URL: "http://allowed.test:8080/"}} {
		if g := s.get(s.public, req); string(g.body) != fmt.Sprint(4+i) || g.Cached {
			t.Errorf("%+v: %s %+v", req, g.body, g.Fetched)
		}
	}
	for _, same := range []string{"http://ALLOWED.test.:80/#x", "HTTP://allowed.test"} {
		if g := s.url(same); !g.Cached || g.URL != "http://allowed.test/" {
			t.Errorf("%s: %+v", same, g.Fetched)
		}
	}
}

func TestCacheLeavesOutWhatIsForOneCallerOnly(t *testing.T) {
	for _, header := range []http.Header{
		{"Set-Cookie": {"a=b"}}, {"Vary": {"Accept, *"}}, {"Cache-Control": {"private"}}, {"Cache-Control": {"public, No-Store"}},
		{"Cache-Control": {"public", `no-cache="x"`}}, {"Cache-Control": {"max-age=0"}}, {"Cache-Control": {"max-age=x"}}, {"Pragma": {"no-cache"}},
	} {
		t.Run(fmt.Sprint(header), func(t *testing.T) {
			s := counted(t, header)
			for _, url := range []string{"http://allowed.test/", "http://allowed.test/to?u=http://other.test/"} {
				a, b := s.url(url), s.url(url)
				if b.Cached || string(a.body) == string(b.body) {
					t.Errorf("%s was held: %q %q", url, a.body, b.body)
				}
			}
		})
	}
	s := counted(t, nil)
	for _, url := range []string{"http://allowed.test/404", "http://allowed.test/to"} {
		if s.url(url); s.url(url).Cached {
			t.Errorf("%s was held", url)
		}
	}
}

func TestCacheGoesByWhatTheServerSaysOfTime(t *testing.T) {
	s := counted(t, http.Header{"Cache-Control": {"public, max-age=30"}})
	s.url("http://allowed.test/")
	s.now = s.now.Add(29 * time.Second)
	if !s.url("http://allowed.test/").Cached {
		t.Error("not held for 30 seconds")
	}
	s.now = s.now.Add(time.Second)
	if s.url("http://allowed.test/").Cached {
		t.Error("held for longer than 30 seconds")
	}
}

func TestCacheIsAskedAfterEveryHopWasJudgedAgain(t *testing.T) {
	s := counted(t, nil)
	url := "http://allowed.test/to?u=http://other.test/"
	if s.url(url); !s.url(url).Cached {
		t.Fatal("not held")
	}
	both := listed(t, envelope.Allow{Host: "allowed.test", Ports: []int{80}}, envelope.Allow{Host: "other.test", Ports: []int{80}})
	if g := s.get(both, envelope.Fetch{URL: url}); !g.Cached || string(g.body) != "1" || len(g.Hops) != 1 {
		t.Errorf("with both listed: %+v", g.Fetched)
	}
	first := listed(t, envelope.Allow{Host: "allowed.test", Ports: []int{80}})
	if g := s.get(first, envelope.Fetch{URL: url}); g.Cached || !strings.Contains(g.Failure, "redirect to http://other.test/ refused") || len(g.body) > 0 {
		t.Errorf("with the first listed: %q %+v", g.body, g.Fetched)
	}
	wantRefused(t, s.get(listed(t), envelope.Fetch{URL: url}), url, "network.allow is empty")
}

func TestCacheLeavesOutAnswersOfAddressesThatAreNotPublic(t *testing.T) {
	s := counted(t, nil)
	open := judge(t, envelope.Network{
		Allow:   []envelope.Allow{{Host: "allowed.test", Ports: []int{80}}},
		Private: []envelope.Private{{CIDR: "10.0.0.0/8", Why: "test"}, {CIDR: "127.0.0.1/32", Why: "test"}},
	})
	for _, at := range []string{"10.1.2.3", "127.0.0.1", "192.168.0.1", "::1"} {
		s.at["allowed.test:80"] = at
		if s.get(open, envelope.Fetch{URL: "http://allowed.test/"}); s.get(open, envelope.Fetch{URL: "http://allowed.test/"}).Cached {
			t.Errorf("an answer of %s was held", at)
		}
	}
}

func TestFreshAnswerThatCannotBeHeldRemovesTheOldOne(t *testing.T) {
	header := http.Header{}
	s := counted(t, header)
	s.url("http://allowed.test/")
	header["Set-Cookie"] = []string{"a=b"}
	s.get(s.public, envelope.Fetch{URL: "http://allowed.test/", Fresh: true})
	if g := s.url("http://allowed.test/"); g.Cached || string(g.body) != "3" {
		t.Errorf("%q %+v", g.body, g.Fetched)
	}
}

func TestCacheIsBoundedByEntriesAndBytes(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := newCache(3, 100_000, time.Minute)
	put := func(name string, n int) {
		c.put(&entry{key: key{url: name}, body: [][]byte{make([]byte, n)}, expires: now.Add(time.Minute)}, now)
	}
	has := func(names ...string) {
		t.Helper()
		var got []string
		var used int64
		for at := c.order.Front(); at != nil; at = at.Next() {
			got = append(got, at.Value.(*entry).key.url)
			used += at.Value.(*entry).size
		}
		if fmt.Sprint(got) != fmt.Sprint(names) || len(c.byKey) != len(got) || c.used != used || used > c.bytes {
			t.Errorf("holds %q, want %q; %d keys, %d bytes of %d", got, names, len(c.byKey), c.used, used)
		}
	}
	put("a", 10)
	put("b", 10)
	put("c", 10)
	put("d", 10)
	has("d", "c", "b")
	if c.get(key{url: "b"}, now) == nil || c.get(key{url: "a"}, now) != nil || c.get(key{team: "x", url: "b"}, now) != nil {
		t.Error("wrong entry")
	}
	has("b", "d", "c")
	put("e", 90_000)
	has("e", "b", "d")
	put("f", 90_000)
	has("f")
	put("g", 100_000)
	has("f")
	put("b", 20)
	has("b", "f")
	c.drop(key{url: "f"})
	has("b")
	c.get(key{}, now.Add(time.Minute))
	has()
	c = newCache(0, 0, 0)
	put("a", 0)
	has()
}

func TestLargeBodiesAreNotHeld(t *testing.T) {
	l := limits()
	l.CacheBytes = 400_000
	s := newStandWith(t, l, func(w http.ResponseWriter, r *http.Request) { send(t, w, long(len(r.URL.Path)*1000)) })
	for url, want := range map[string]bool{"http://allowed.test/" + strings.Repeat("x", 98): true, "http://allowed.test/" + strings.Repeat("x", 101): false} {
		s.url(url)
		if g := s.url(url); g.Cached != want || len(g.body) == 0 {
			t.Errorf("%d bytes: cached %v", len(g.body), g.Cached)
		}
	}
}

func TestHammerOneFetcher(t *testing.T) {
	s := counted(t, nil)
	done := make(chan struct{})
	for i := range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for n := range 20 {
				s.getAs(fmt.Sprint(i%3), s.public, envelope.Fetch{URL: fmt.Sprintf("http://allowed.test/%d", n%4), Fresh: n%5 == 0, Text: n%2 == 0})
			}
		}()
	}
	for range 8 {
		<-done
	}
}
