package gateway

import (
	"context"
	"time"
)

// Store keeps what a gateway has to keep. Its methods may be called
// concurrently, and by several processes. storetest.RunGateway holds an
// implementation to what is written here.
type Store interface {
	// Update runs fn in a transaction, as audit.Store.Update does: durable
	// when it returns nil, fn may run more than once, and several may share one
	// commit.
	Update(ctx context.Context, fn func(Tx) error) error
	// Begin is Update for who does something else meanwhile: it returns when
	// the store has the request, which wait returns the end of. wait must be
	// called, once.
	Begin(ctx context.Context, fn func(Tx) error) (wait func() error)
	// Directory returns every team, key and secret.
	Directory(ctx context.Context) (*Directory, error)
	// Generation returns the directory's, which every change of a team, a key
	// or a secret makes grow.
	Generation(ctx context.Context) (int64, error)
	// Task returns what a task has used as far as it is folded, and whether
	// anything is known of it.
	Task(ctx context.Context, team, task string) (TaskUse, bool, error)
	// Usage returns what was used, what is not folded yet included, by month,
	// team and key.
	Usage(ctx context.Context, q UsageQuery) ([]Usage, error)
	// Recent returns when calls were admitted since a time, settled or not.
	Recent(ctx context.Context, since time.Time) ([]Stamp, error)
}

// Tx is an Update's transaction, valid until fn returns. After an error of a
// method fn must return an error.
type Tx interface {
	// Directory is as in Store.
	Directory() (*Directory, error)
	// PutTeam, PutKey and PutSecret add one or put it in place of the one of
	// that name. The directory's generation grows.
	PutTeam(Team) error
	PutKey(Key) error
	PutSecret(Secret) error
	// Hold notes a reservation.
	Hold(Admission) error
	// Held returns the reservations that are not settled, at most limit.
	Held(limit int) ([]Admission, error)
	// Settle ends the reservation of a call, if there is one, and notes what
	// was used.
	Settle(Settlement) error
	// Fold adds settlements to the usage of their month and task, and forgets
	// those that are older than keep, and tasks that nobody has used since
	// idle.
	Fold(keep, idle time.Time) error
}

// Admission is a call that was let in, with what is reserved for it.
type Admission struct {
	ID        string // of the call
	Key       string
	Team      string
	Task      string
	Month     Month
	At        time.Time
	Arguments int64 // tokens
	Result    int64 // tokens, at most
	CPU       time.Duration
}

// Settlement is what a call has used.
type Settlement struct {
	ID        string
	Key       string
	Team      string
	Task      string
	Month     Month
	At        time.Time // of the admission
	Calls     int64     // 1, or 0 where nothing ran
	Arguments int64     // tokens
	Result    int64     // tokens
	CPU       time.Duration
	Wall      time.Duration
}

// TaskUse is what a task has used.
type TaskUse struct {
	Began  time.Time // of its first call
	Calls  int64
	Tokens int64
	CPU    time.Duration
}

// Usage is what was used by one key in one month.
type Usage struct {
	Month     Month         `json:"month"`          // in UTC
	Team      string        `json:"team"`           // that pays
	Key       string        `json:"key"`            // id of the key
	Calls     int64         `json:"calls"`          // that ran
	Arguments int64         `json:"argumentTokens"` // tokens of what was asked
	Result    int64         `json:"resultTokens"`   // tokens of what was answered
	CPU       time.Duration `json:"cpuNs"`          // of its calls, user and system
	Wall      time.Duration `json:"wallNs"`         // of its calls
}

// Tokens are both ways together.
func (u *Usage) Tokens() int64 { return u.Arguments + u.Result }

// UsageQuery selects usage. What is not set matches everything.
type UsageQuery struct {
	Team string
	From Month // this one and later
	To   Month // this one and earlier
}

// Stamp says that a call of a key was let in.
type Stamp struct {
	Key string
	At  time.Time
}
