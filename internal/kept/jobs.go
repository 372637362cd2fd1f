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
	// Ended and Text. Of one that does not run it is nothing. That of a daemon
	// that died is finished by the next one.
	FinishJob(ctx context.Context, j Job) error
	// ListJobs returns the jobs, oldest first.
	ListJobs(ctx context.Context) ([]Job, error)
}
