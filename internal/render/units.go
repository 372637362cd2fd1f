package render

import (
	"fmt"
	"time"
)

// Bytes returns a number of bytes as a person reads it: 512 B, 1.5 KiB, 64.0
// MiB. It rounds down, so that what is under a limit never reads as the limit.
// A negative number is "unknown".
func Bytes(n int64) string {
	if n < 0 {
		return "unknown"
	}
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	unit, size := 0, int64(1024)
	for unit < len(units)-1 && n/size >= 1024 {
		unit, size = unit+1, size*1024
	}
	return fmt.Sprintf("%d.%d %s", n/size, n%size/(size/1024)*10/1024, units[unit])
}

// Duration returns a time as a person reads it: 850 µs, 12.3 ms, 1.23 s,
// 2m03s, 1h02m, 26h00m. It rounds down.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "unknown"
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d/time.Microsecond)
	case d < time.Second:
		tenths := d / (time.Millisecond / 10)
		return fmt.Sprintf("%d.%d ms", tenths/10, tenths%10)
	case d < time.Minute:
		hundredths := d / (time.Second / 100)
		return fmt.Sprintf("%d.%02d s", hundredths/100, hundredths%100)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
}
