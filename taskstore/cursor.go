package taskstore

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"time"
)

// Cursor is a place in a List: after the task with this status time and id.
type Cursor struct {
	Time time.Time
	Task string
}

// Token returns the cursor as a page token of q. It holds a mark of the query, so that it continues no
// other.
func (c Cursor) Token(q Query) string {
	b := binary.BigEndian.AppendUint32(nil, q.mark())
	b = binary.BigEndian.AppendUint64(b, uint64(c.Time.UnixMilli()))
	b = append(b, c.Task...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor reads q's page token. It returns nil for the first page and ErrBadToken for anything that is
// not a token of this query.
func ParseCursor(q Query) (*Cursor, error) {
	if q.PageToken == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(q.PageToken)
	if err != nil || len(b) < 13 || binary.BigEndian.Uint32(b) != q.mark() {
		return nil, ErrBadToken
	}
	ms := int64(binary.BigEndian.Uint64(b[4:]))
	return &Cursor{Time: time.UnixMilli(ms), Task: string(b[12:])}, nil
}

func (q Query) mark() uint32 {
	h := fnv.New32a()
	for _, s := range []string{q.Agent, q.Tenant, q.Owner, q.ContextID, q.Status.String()} {
		_, _ = h.Write([]byte(s))
		_, _ = h.Write([]byte{0})
	}
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(q.After.UnixMilli())))
	return h.Sum32()
}
