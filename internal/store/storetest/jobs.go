package storetest

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/callcell/callcell/internal/kept"
)

// RunJobs holds a store to what kept.Jobs says. open returns an empty store,
// which the test closes by itself.
func RunJobs(t *testing.T, open func(*testing.T) kept.Jobs) {
	for _, c := range []struct {
		name string
		test func(*testing.T, kept.Jobs)
	}{
		{"BegunCalledFinished", testJob},
		{"TheOldestThatEndedIsForgotten", testJobsBounded},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func job(n int) kept.Job {
	return kept.Job{ID: fmt.Sprint("job", n), Began: Time(n), Text: []byte(`{"n":` + fmt.Sprint(n) + `}`)}
}

// doJobs begins jobs, and finishes those that have ended.
func doJobs(t *testing.T, s kept.Jobs, jobs ...kept.Job) {
	t.Helper()
	for _, j := range jobs {
		if err := s.BeginJob(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if !j.Ended.IsZero() {
			if err := s.FinishJob(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func listJobs(t *testing.T, s kept.Jobs, want ...kept.Job) {
	t.Helper()
	got, err := s.ListJobs(t.Context())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v, want %+v", got, err, want)
	}
}

func endedJob(j kept.Job) kept.Job {
	j.Ended, j.Text = j.Began.Add(1e9), []byte("{}")
	return j
}

func testJob(t *testing.T, s kept.Jobs) {
	listJobs(t, s)
	a, b := job(1), job(2)
	doJobs(t, s, b, a)
	listJobs(t, s, a, b)
	if err := s.CallJob(t.Context(), a.ID, "a call"); err != nil {
		t.Fatal(err)
	}
	a.Call = "a call"
	listJobs(t, s, a, b)
	a = endedJob(a)
	if err := s.FinishJob(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	listJobs(t, s, a, b)
	again := a
	again.Text = []byte(`"something else"`)
	if err := s.FinishJob(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if err := s.CallJob(t.Context(), a.ID, "another"); err != nil {
		t.Fatal(err)
	}
	listJobs(t, s, a, b)
}

func testJobsBounded(t *testing.T, s kept.Jobs) {
	runs := job(0)
	doJobs(t, s, runs)
	want := []kept.Job{runs}
	for n := 1; n < kept.MaxJobs+5; n++ {
		j := endedJob(job(n))
		doJobs(t, s, j)
		want = append(want, j)
	}
	want = append(want[:1], want[len(want)-kept.MaxJobs+1:]...)
	listJobs(t, s, want...)
}
