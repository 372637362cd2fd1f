package cli

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestBytesMayTakeLongAndNotBeSilent: what comes slowly is waited for, and not what
// does not come any more.
func TestBytesMayTakeLongAndNotBeSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, hear, over := patient(t.Context())
		defer over()
		slow := readFunc(func(p []byte) (int, error) {
			select {
			case <-time.After(mostAnswer - time.Second):
				return 1, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		if n, err := io.ReadFull(hear(slow), make([]byte, 10)); n != 10 || err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		began := time.Now()
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), errMute) || time.Since(began) != mostAnswer {
			t.Errorf("%v after %v", context.Cause(ctx), time.Since(began))
		}
	})
}
