//go:build !unix

package spent

import "time"

// CPU returns the time of the clock: what else there is nobody says here.
func CPU() time.Duration { return time.Duration(time.Now().UnixNano()) }
