package extension_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
)

func update(add bool, a a2a.Artifact) *a2a.TaskArtifactUpdateEvent {
	return &a2a.TaskArtifactUpdateEvent{TaskID: "t", ContextID: "c", Artifact: &a, Append: add}
}

func parts(texts ...string) (out []*a2a.Part) {
	for _, s := range texts {
		out = append(out, a2a.TextPart(s))
	}
	return out
}

// TestDigest holds the digest to docs/extensions/chunk-integrity.md, step by step.
func TestDigest(t *testing.T) {
	a := a2a.Artifact{
		ArtifactID: "a", Name: "out", Metadata: a2a.Struct{"z": []byte("1.0"), "b": []byte(`"é"`)},
		Parts: []*a2a.Part{a2a.TextPart("one\n"), {Content: a2a.Data(`{"b":1e2,"a":[]}`), MediaType: "application/json"}, {Content: a2a.Raw("\x00\xff")}},
	}
	list := sha256.Sum256([]byte(`{"text":"one\n"}` + "\n" + `{"data":{"a":[],"b":100},"mediaType":"application/json"}` + "\n" + `{"raw":"AP8="}` + "\n"))
	all := append([]byte("t\n"+`{"artifactId":"a","metadata":{"b":"é","z":1},"name":"out","parts":[]}`+"\n"), list[:]...)
	sum := sha256.Sum256(all)
	want := extension.Digest{Parts: 3, SHA256: hex.EncodeToString(sum[:])}

	var d extension.Digests
	d.Apply(&a2a.Task{ID: "t"})
	ev := update(false, a)
	d.Apply(ev)
	var got extension.Digest
	if !d.With(ev).(*a2a.TaskArtifactUpdateEvent).Metadata.Get(extension.DigestKey, &got) || got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestDigestOfChunks: the digest does not depend on how an artifact came.
func TestDigestOfChunks(t *testing.T) {
	task := &a2a.Task{ID: "t"}
	var d extension.Digests
	d.Apply(task)
	for i, ev := range []*a2a.TaskArtifactUpdateEvent{
		update(false, a2a.Artifact{ArtifactID: "a", Name: "old", Parts: parts("gone")}),
		update(false, a2a.Artifact{ArtifactID: "a", Name: "out", Parts: parts("1", "2")}),
		update(true, a2a.Artifact{ArtifactID: "b", Parts: parts("never begun")}),
		update(true, a2a.Artifact{ArtifactID: "a", Parts: parts("3")}),
		update(true, a2a.Artifact{ArtifactID: "a", Metadata: a2a.Struct{}.With("k", 1), Extensions: []string{"x"}, Parts: parts("4")}),
		update(true, a2a.Artifact{ArtifactID: "a", Description: "d", Metadata: a2a.Struct{}.With("l", 2), Parts: parts("5")}),
	} {
		task.Apply(ev)
		d.Apply(ev)
		var whole extension.Digests
		whole.Apply(task)
		sent := whole.With(task)
		if err := d.Check(sent); err != nil {
			t.Fatalf("after update %d: %v", i, err)
		}
	}
}

// TestDigestBindsTask: an artifact of another task has another digest.
func TestDigestBindsTask(t *testing.T) {
	a := []*a2a.Artifact{{ArtifactID: "a", Parts: parts("x")}}
	var d extension.Digests
	one := &a2a.Task{ID: "1", Artifacts: a}
	d.Apply(one)
	other := *d.With(one).(*a2a.Task)
	other.ID = "2"
	if err := new(extension.Digests).Check(&other); !errors.Is(err, extension.ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

// FuzzCanonicalPart: a part that is written without the canonicaliser is canonical.
func FuzzCanonicalPart(f *testing.F) {
	for _, s := range []string{"", "plain", "\x00\x1f\b\f\n\r\t\"\\/", "<>&'", "\u007f\u0080\u2028\u2029\ufeff", "é😀"} {
		f.Add(s)
	}
	digest := func(p *a2a.Part) (out extension.Digest) {
		var d extension.Digests
		ev := update(false, a2a.Artifact{ArtifactID: "a", Parts: []*a2a.Part{p}})
		d.Apply(ev)
		d.With(ev).(*a2a.TaskArtifactUpdateEvent).Metadata.Get(extension.DigestKey, &out)
		return out
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, p := range []*a2a.Part{{Content: a2a.Text(s)}, {Content: a2a.URL(s)}, {Content: a2a.Raw(s)}} {
			c, err := jcs.Transform(p.AppendJSON(nil))
			if err != nil {
				t.Fatal(err)
			}
			list := sha256.Sum256(append(c, '\n'))
			sum := sha256.Sum256(fmt.Appendf(nil, "\n%s\n%s", `{"artifactId":"a","parts":[]}`, list[:]))
			if got := digest(p); got.SHA256 != hex.EncodeToString(sum[:]) {
				t.Errorf("%s is not canonical: %s", p.AppendJSON(nil), c)
			}
		}
	})
}

// BenchmarkDigest shows that a chunk costs the same after 10 and after 100,000.
func BenchmarkDigest(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var d extension.Digests
			d.Apply(&a2a.Task{ID: "t", Artifacts: []*a2a.Artifact{{ArtifactID: "a", Parts: parts(make([]string, n)...)}}})
			ev := update(true, a2a.Artifact{ArtifactID: "a", Parts: parts("a chunk of some forty bytes of text, more or less")})
			b.ReportAllocs()
			for b.Loop() {
				d.Apply(ev)
				d.With(ev)
			}
		})
	}
}
