package store
import ("testing";"context";"github.com/callcell/callcell/internal/audit")
func BenchmarkProf(b *testing.B) {
	path := file(b); ctx := context.Background()
	k := open(b, path); _ = k
	for b.Loop() {
		d, err := Open(ctx, path); if err != nil { b.Fatal(err) }
		l, _ := audit.New(d.Audit(), audit.Options{})
		l.Recover(ctx)
		fill(b, l, 1)
		l.Close(ctx); d.Close()
	}
}
