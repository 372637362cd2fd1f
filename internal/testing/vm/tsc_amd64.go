package vm

import "time"

// ticks reads this processor's time stamp counter.
func ticks() uint64

// instant is the counter and the clock at one moment: of some readings the one
// between whose two looks at the clock the least time went by.
func instant() (count uint64, at time.Time) {
	least := time.Hour
	for range 100 {
		before := time.Now()
		n := ticks()
		if took := time.Since(before); took < least {
			least, count, at = took, n, before
		}
	}
	return count, at
}

// TSCRate measures how fast this host's time stamp counter counts, in kHz. An
// emulated machine has the same counter.
func TSCRate() int {
	const over = 200 * time.Millisecond
	from, began := instant()
	<-time.After(over)
	to, ended := instant()
	return int(float64(to-from) / float64(ended.Sub(began)) * 1e6)
}
