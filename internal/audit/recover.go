package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/callcell/callcell/envelope"
)

// orphanBatch is how many calls one transaction completes as lost.
const orphanBatch = 256

// farLeases is how many times its length a lease may reach into the future. One
// that reaches further was granted by a clock that has been set back since.
const farLeases = 10

// Recover completes as lost the open calls whose instance has no valid lease,
// and returns their ids. A lease that reaches too far into the future, because
// the clock was set back, is cut to its length: who lives renews it in time.
// Where there are none it writes nothing. It may run in several processes at
// once: each call is completed by one of them. From its first intent on a Log
// does this by itself, every third of a lease.
func (l *Log) Recover(ctx context.Context) (lost []string, err error) {
	for {
		orphans, err := l.store.Orphans(ctx, l.chain, l.now(), l.far(), 1)
		if err != nil || len(orphans) == 0 {
			return lost, wrapRecover(err)
		}
		var ids []string
		err = l.store.Update(ctx, func(tx Tx) error {
			ids, err = l.loseSome(tx)
			return err
		})
		if err != nil || len(ids) == 0 {
			return lost, wrapRecover(err) // none: another process was first
		}
		lost = append(lost, ids...)
		for _, id := range ids {
			l.end(id)
		}
	}
}

// far is from when on a lease is none that this clock has granted.
func (l *Log) far() time.Time { return l.now().Add(farLeases * l.ttl) }

func wrapRecover(err error) error {
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}

// loseSome completes some orphans. Their instances lose what they have left of
// a lease, so that none can write any more, whatever its clock says.
func (l *Log) loseSome(tx Tx) (ids []string, err error) {
	orphans, err := tx.Orphans(l.chain, l.now(), l.far(), orphanBatch)
	if err != nil {
		return nil, err
	}
	for _, o := range orphans {
		if o.Lease.After(l.far()) {
			if err := tx.SetLease(o.Entry.Instance, l.now().Add(l.ttl)); err != nil {
				return nil, err
			}
			continue
		}
		rec := LostRecord{Instance: o.Entry.Instance, Lease: o.Lease, Intent: o.Entry.First}
		body, err := encode(rec)
		if err != nil {
			return nil, err
		}
		entry := o.Entry
		entry.Outcome = envelope.OutcomeLost
		if _, err := l.append(tx, KindLost, body, entry); err != nil {
			return nil, err
		}
		if err := tx.DropLease(o.Entry.Instance); err != nil {
			return nil, err
		}
		ids = append(ids, o.Entry.ID)
	}
	return ids, nil
}
