package kept

import (
	"context"
	"time"
)

// MaxJobs is how many jobs are remembered: those that run, and the newest of
// those that have ended.
const MaxJobs = 64

// A Job is the making of an image, which a client asked for and comes back for.
type Job struct {
	ID    string
	Call  string // id of the call that makes it; "" up to when there is one
	State State  // Runs, Done or Lost
	Began time.Time
	Ended time.Time // zero: it runs
	// Text is what is said of it, for who keeps it to read.
	Text []byte
}

// Jobs keeps jobs over the end of a daemon. Its methods may be called
// concurrently. What a method has written is durable when it returns nil.
// storetest.RunJobs holds an implementation to what is written here.
type Jobs interface {
	// BeginJob notes a job that is about to run, and forgets the oldest of those
	// that have ended where there are more than MaxJobs.
	BeginJob(ctx context.Context, j Job) error
	// CallJob notes which call makes it, before that call's intent.
	CallJob(ctx context.Context, id, call string) error
	// FinishJob notes how a job that runs has ended: of j it takes ID, Call,
	// Ended and Text. Of one that does not run it is nothing.
	FinishJob(ctx context.Context, j Job) error
	// LoseJobs makes every job that runs a lost one, ended now, and returns how
	// many there were. It is for who alone serves the store.
	LoseJobs(ctx context.Context, now time.Time) (int64, error)
	// ListJobs returns the jobs, oldest first.
	ListJobs(ctx context.Context) ([]Job, error)
}
