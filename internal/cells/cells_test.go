// Package cells simulates the cell map of docs/scale.md: which of several clusters has the tasks of a caller.
package cells

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// cell is a cluster: nodes on a database of their own.
type cell struct {
	name   string
	weight float64 // its share of the callers, against the others'
}

// cellOf returns the cell of a caller, by weighted rendezvous hashing: each cell draws a number that depends on the two
// names alone, and the best one wins. Who knows the list needs no table and no other's word.
func cellOf(owner string, cells []cell) string {
	best, most := "", math.Inf(-1)
	for _, c := range cells {
		h := sha256.Sum256([]byte(c.name + "\x00" + owner))
		draw := (float64(binary.BigEndian.Uint64(h[:8])>>11) + 0.5) / (1 << 53) // in (0, 1)
		if score := -c.weight / math.Log(draw); score > most {
			best, most = c.name, score
		}
	}
	return best
}

func owners(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("https://issuer.example\x00caller-%d", i))
	}
	return out
}

func count(owners []string, cells []cell) map[string]int {
	n := map[string]int{}
	for _, o := range owners {
		n[cellOf(o, cells)]++
	}
	return n
}

// near reports whether a number is within so many hundredths of what it should be.
func near(got, want, percent float64) bool { return math.Abs(got-want) <= want*percent/100 }

// TestShares gives each cell its share of the callers.
func TestShares(t *testing.T) {
	all := owners(100_000)
	cells := []cell{{"a", 1}, {"b", 1}, {"c", 1}, {"d", 2}}
	for _, c := range cells {
		if got := count(all, cells)[c.name]; !near(float64(got), 20_000*c.weight, 3) {
			t.Errorf("cell %s has %d callers", c.name, got)
		}
	}
}

// TestChange: a new cell takes its share evenly from the others and nobody else moves; one that goes gives what it had.
func TestChange(t *testing.T) {
	all := owners(100_000)
	four := []cell{{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}}
	five := append(slices.Clone(four), cell{"e", 1})
	moved := map[string]int{}
	for _, o := range all {
		was, is := cellOf(o, four), cellOf(o, five)
		if was == is {
			continue
		}
		if is != "e" {
			t.Fatalf("%q moved from %s to %s when e came", o, was, is)
		}
		moved[was]++
	}
	for _, c := range four {
		if !near(float64(moved[c.name]), 5000, 6) {
			t.Errorf("%d callers left cell %s, want about 5,000", moved[c.name], c.name)
		}
	}
	t.Logf("a fifth cell takes %d of 100,000 callers", moved["a"]+moved["b"]+moved["c"]+moved["d"])
}

// TestLoad simulates callers of whom few ask for most (a Zipf distribution, as logs of services have it): how uneven the
// load of the cells is, and how much of it the heaviest caller is, who cannot be split.
func TestLoad(t *testing.T) {
	const callers, requests = 20_000, 2_000_000
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 20, callers-1)
	load := make([]int, callers)
	for range requests {
		load[zipf.Uint64()]++
	}
	all := owners(callers)
	for _, n := range []int{2, 4, 8, 16} {
		var cells []cell
		for i := range n {
			cells = append(cells, cell{fmt.Sprint("cell-", i), 1})
		}
		per := map[string]int{}
		for i, o := range all {
			per[cellOf(o, cells)] += load[i]
		}
		busiest := 0
		for _, l := range per {
			busiest = max(busiest, l)
		}
		ratio := float64(busiest) * float64(n) / requests
		t.Logf("%2d cells: the busiest has %.2f times its share; the heaviest caller is %.0f%% of a share", n, ratio, 100*float64(load[0])*float64(n)/requests)
		if n <= 8 && ratio > 1.5 {
			t.Errorf("%d cells: the busiest has %.2f times its share", n, ratio)
		}
	}
}
