package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

type point struct{ x, y float64 }

type line struct {
	name   string
	color  int // of the style
	points []point
}

// The size of a plot and its margins, in pixels.
const (
	plotWidth, plotHeight = 760.0, 400.0
	left, right           = 64.0, 190.0
	top, bottom           = 40.0, 48.0
)

// style makes a plot readable on light and on dark pages. The colours are told apart by most colour-blind readers.
const style = `<style>
text{font:12px system-ui,sans-serif;fill:#1f2328}.t{font-size:14px;font-weight:600}.g{stroke:#d1d9e0;stroke-width:1}
.l{fill:none;stroke-width:2}.c0{stroke:#0072b2;fill:#0072b2}.c1{stroke:#d55e00;fill:#d55e00}.c2{stroke:#009e73;fill:#009e73}
.c3{stroke:#b8579a;fill:#b8579a}.c4{stroke:#8a6d00;fill:#8a6d00}.c5{stroke:#5c6773;fill:#5c6773}text[class^=c]{stroke:none}path[class^=l]{fill:none}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.g{stroke:#3d444d}.c0{stroke:#56b4e9;fill:#56b4e9}
.c1{stroke:#ff9e4a;fill:#ff9e4a}.c2{stroke:#3fd6a4;fill:#3fd6a4}.c3{stroke:#e49bcb;fill:#e49bcb}.c4{stroke:#f0e442;fill:#f0e442}.c5{stroke:#aab4be;fill:#aab4be}}
</style>
`

// svg draws lines over two logarithmic axes, each with its name at its end.
func svg(title, xName, yName string, lines []line) string {
	var all []point
	for _, l := range lines {
		all = append(all, l.points...)
	}
	if len(all) == 0 {
		return ""
	}
	byX := func(a, b point) int { return cmp(a.x, b.x) }
	byY := func(a, b point) int { return cmp(a.y, b.y) }
	x := axis{from: slices.MinFunc(all, byX).x, to: slices.MaxFunc(all, byX).x, start: left, end: plotWidth - right}
	y := axis{
		from: floorTick(slices.MinFunc(all, byY).y), to: ceilTick(slices.MaxFunc(all, byY).y),
		start: plotHeight - bottom, end: top,
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" aria-label="%s">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight, escape(title))
	b.WriteString(style)
	fmt.Fprintf(&b, `<text class="t" x="%g" y="18">%s</text>`+"\n", left, escape(title))
	for _, v := range y.ticks() {
		fmt.Fprintf(&b, `<path class="g" d="M%g %.1fH%g"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, y.at(v), plotWidth-right, left-8, y.at(v)+4, number(v))
	}
	for _, v := range decades(x.from, x.to) {
		fmt.Fprintf(&b, `<path class="g" d="M%.1f %gV%g"/><text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n",
			x.at(v), top, plotHeight-bottom, x.at(v), plotHeight-bottom+18, number(v))
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", (left+plotWidth-right)/2, plotHeight-10, escape(xName))
	fmt.Fprintf(&b, `<text x="%g" y="%g">%s</text>`+"\n", 4.0, top-8, escape(yName))
	labels := make([]label, 0, len(lines))
	for _, l := range lines {
		if len(l.points) == 0 {
			continue
		}
		var d strings.Builder
		for k, p := range l.points {
			fmt.Fprintf(&d, "%c%.1f %.1f", "ML"[min(k, 1)], x.at(p.x), y.at(p.y))
		}
		fmt.Fprintf(&b, `<path class="l c%d" d="%s"/>`+"\n", l.color, d.String())
		for _, p := range l.points {
			fmt.Fprintf(&b, `<circle class="c%d" r="3" cx="%.1f" cy="%.1f"><title>%s: %s at %s</title></circle>`+"\n",
				l.color, x.at(p.x), y.at(p.y), escape(l.name), number(p.y), number(p.x))
		}
		end := l.points[len(l.points)-1]
		labels = append(labels, label{y.at(end.y), fmt.Sprintf(`class="c%d" x="%.1f"`, l.color, x.at(end.x)+8), l.name + " " + number(end.y)})
	}
	place(labels)
	for _, l := range labels {
		fmt.Fprintf(&b, `<text %s y="%.1f">%s</text>`+"\n", l.attributes, l.y+4, escape(l.text))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// label is the name of a line at its end.
type label struct {
	y                float64
	attributes, text string
}

// place moves labels apart that would cover each other.
func place(labels []label) {
	const apart = 15
	slices.SortFunc(labels, func(a, b label) int { return cmp(a.y, b.y) })
	for i := 1; i < len(labels); i++ {
		labels[i].y = max(labels[i].y, labels[i-1].y+apart)
	}
	for i, last := len(labels)-1, plotHeight-bottom; i >= 0; i-- {
		labels[i].y = min(labels[i].y, last)
		last = labels[i].y - apart
	}
}

func cmp(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// axis is logarithmic: from and to lie at the pixels start and end.
type axis struct{ from, to, start, end float64 }

func (a axis) at(v float64) float64 {
	if a.to == a.from {
		return (a.start + a.end) / 2
	}
	return a.start + (a.end-a.start)*math.Log(v/a.from)/math.Log(a.to/a.from)
}

// ticks are 1, 2 and 5 of each decade, or only 1 where there are many.
func (a axis) ticks() (out []float64) {
	if a.to/a.from > 1500 {
		return decades(a.from, a.to)
	}
	for _, d := range decades(a.from/10, a.to) {
		for _, m := range []float64{1, 2, 5} {
			if v := d * m; v >= a.from*0.999 && v <= a.to*1.001 {
				out = append(out, v)
			}
		}
	}
	return out
}

func decades(from, to float64) (out []float64) {
	for e := math.Ceil(math.Log10(from) - 1e-9); math.Pow(10, e) <= to*1.001; e++ {
		out = append(out, math.Pow(10, e))
	}
	return out
}

// floorTick and ceilTick return the nearest 1, 2 or 5 of a decade below and above v.
func floorTick(v float64) float64 {
	d := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{5, 2} {
		if v >= d*m {
			return d * m
		}
	}
	return d
}

func ceilTick(v float64) float64 {
	d := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= d*m {
			return d * m
		}
	}
	return d * 10
}

// number writes v in three figures, large ones with commas.
func number(v float64) string {
	switch {
	case v >= 1000:
		s := fmt.Sprintf("%.0f", v)
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	case v >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
