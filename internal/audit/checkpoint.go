package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// When a checkpoint is due, unless Options say otherwise.
const (
	DefaultCheckpointEvents = 1000
	DefaultCheckpointEvery  = 10 * time.Minute
)

// The bounds of checkpoints that are read back.
const (
	maxCheckpoint  = 64 << 10  // bytes of one, as a line
	maxCheckpoints = 1_000_000 // of a file
	maxHeads       = 256       // chains of one
)

// Checkpoint is a signed statement of what a store held: the heads of its
// chains at a time. It is a body of the chain, and what an anchor keeps.
type Checkpoint struct {
	Version   int         `json:"version"` // 1
	At        time.Time   `json:"at"`
	Instance  string      `json:"instance"` // that made it
	Heads     []ChainHead `json:"heads"`    // by the chain's name
	Key       string      `json:"key"`      // short name of the public key
	Signature string      `json:"signature"`
}

// ChainHead is the last event of a chain.
type ChainHead struct {
	Chain string `json:"chain"`
	Seq   int64  `json:"seq"`
	Head  string `json:"head"` // its hash, HEX
}

// message is what the signature is over: a domain, the time in nanoseconds
// since 1970, the instance, the number of heads, and of each head its chain,
// sequence number and hash. Integers and lengths are 8 bytes, big-endian.
func (c *Checkpoint) message() ([]byte, error) {
	b := []byte("callcell.audit.checkpoint.v1\x00")
	b = binary.BigEndian.AppendUint64(b, uint64(c.At.UnixNano()))
	b = appendText(b, c.Instance)
	b = binary.BigEndian.AppendUint64(b, uint64(len(c.Heads)))
	for _, h := range c.Heads {
		hash, err := parseHash(h.Head)
		if err != nil {
			return nil, err
		}
		b = binary.BigEndian.AppendUint64(appendText(b, h.Chain), uint64(h.Seq))
		b = append(b, hash[:]...)
	}
	return b, nil
}

// Check checks that a checkpoint was signed with a key. It says nothing of any
// store. Errors wrap ErrReceipt or ErrSignature.
func (c *Checkpoint) Check(key PublicKey) error {
	message, err := c.message()
	if err != nil {
		return err
	}
	if !key.verifies(message, c.Signature) {
		return fmt.Errorf("%w: the checkpoint of %s was not signed with key %s", ErrSignature, c.At.Format(time.RFC3339), key.ID())
	}
	return nil
}

// ParseCheckpoint reads a checkpoint from the JSON that it is kept as. It does
// not check the signature. An error wraps ErrReceipt; then the checkpoint is
// the zero value.
func ParseCheckpoint(text []byte) (Checkpoint, error) {
	var c Checkpoint
	if len(text) > maxCheckpoint {
		return c, fmt.Errorf("%w: a checkpoint of %d bytes", ErrReceipt, len(text))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Checkpoint{}, fmt.Errorf("%w: not a checkpoint: %w", ErrReceipt, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Checkpoint{}, fmt.Errorf("%w: more than a checkpoint", ErrReceipt)
	}
	if err := c.valid(); err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}

func (c *Checkpoint) valid() error {
	if c.Version != 1 || len(c.Heads) == 0 || len(c.Heads) > maxHeads || !isWord(c.Instance) {
		return fmt.Errorf("%w: a checkpoint of version %d with %d heads", ErrReceipt, c.Version, len(c.Heads))
	}
	for i, h := range c.Heads {
		if !isWord(h.Chain) || h.Seq < 1 || i > 0 && c.Heads[i-1].Chain >= h.Chain {
			return fmt.Errorf("%w: a head of chain %.40q at event %d", ErrReceipt, h.Chain, h.Seq)
		}
	}
	_, err := c.message()
	return err
}

// ReadCheckpoints reads what an anchor has kept: a checkpoint a line, whatever
// a collector has put before it. Lines that are none, such as one that a crash
// has cut, are skipped and counted; empty ones do not count. An error wraps
// ErrReceipt.
func ReadCheckpoints(r io.Reader) (list []Checkpoint, skipped int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), 2*maxCheckpoint)
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		c, err := ParseCheckpoint(line[max(bytes.IndexByte(line, '{'), 0):])
		switch {
		case len(line) == 0:
		case err != nil:
			skipped++
		default:
			list = append(list, c)
		}
		if len(list) > maxCheckpoints {
			return nil, 0, fmt.Errorf("%w: more than %d checkpoints", ErrReceipt, maxCheckpoints)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrReceipt, err)
	}
	return list, skipped, nil
}

// count notes events that were appended, and has a checkpoint written when
// enough have been.
func (l *Log) count(n int64) {
	if now := l.added.Add(n); l.signer == nil || now/l.events == (now-n)/l.events {
		return
	}
	select {
	case l.nudge <- struct{}{}:
	default: // one is due already
	}
}

// CheckpointIfDue writes a checkpoint where enough events, or enough time, lie
// behind the last one, whoever wrote it. Where none is due it writes nothing.
func (l *Log) CheckpointIfDue(ctx context.Context) error {
	if l.signer == nil {
		return nil
	}
	p, err := l.store.Progress(ctx, l.chain)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	since := p.At
	if p.Checkpoint == 0 {
		since = p.First
	}
	if p.Head.Seq == p.Checkpoint || p.Head.Seq-p.Checkpoint < l.events && l.now().Sub(since) < l.every && !l.now().Before(since) {
		return nil
	}
	return l.checkpoint(ctx)
}

// Checkpoint writes a checkpoint of all that is in the store, unless this Log
// has added nothing, or nothing came after the last one. Errors wrap ErrNoKey
// or are the store's.
func (l *Log) Checkpoint(ctx context.Context) error {
	if l.signer == nil {
		return ErrNoKey
	}
	if l.added.Load() == 0 {
		return nil
	}
	p, err := l.store.Progress(ctx, l.chain)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if Kind(p.Kind) == KindCheckpoint {
		return nil
	}
	return l.checkpoint(ctx)
}

// checkpoint writes one and hands it on.
func (l *Log) checkpoint(ctx context.Context) error {
	var c Checkpoint
	err := l.store.Update(ctx, func(tx Tx) (err error) {
		if c, err = l.makeCheckpoint(tx); err == nil {
			_, err = l.appendAbout(tx, KindCheckpoint, &c)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	l.publish(c)
	return nil
}

func (l *Log) makeCheckpoint(tx Tx) (Checkpoint, error) {
	c := Checkpoint{Version: 1, At: l.now(), Instance: l.instanceID(), Key: l.signer.Public().ID()}
	chains, err := tx.Chains()
	if err != nil {
		return c, err
	}
	for _, chain := range chains[:min(len(chains), maxHeads)] {
		head, err := tx.Head(chain)
		if err != nil {
			return c, err
		}
		c.Heads = append(c.Heads, ChainHead{chain, head.Seq, head.Hash.String()})
	}
	message, err := c.message()
	if err != nil {
		return c, err
	}
	c.Signature = signed(l.signer, message)
	return c, nil
}
