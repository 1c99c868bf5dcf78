package main

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// handCodec is a one-pass recursive-descent parser for exactly the structs used here; unknown members are
// validated lightly and skipped. It shows the order of magnitude a specialised decoder reaches.
type handCodec struct{}

var errJSON = errors.New("bad json")

type hp struct {
	b []byte
	i int
}

func (handCodec) decode(b []byte, v any) (err error) {
	p := &hp{b: b}
	defer func() {
		if r := recover(); r != nil {
			err = errJSON
		}
	}()
	switch v := v.(type) {
	case *Req:
		p.obj(func(k []byte) {
			switch string(k) {
			case "jsonrpc":
				v.JSONRPC = p.str()
			case "id":
				s := p.i
				p.skip()
				v.ID = bytes.Clone(p.b[s:p.i])
			case "method":
				v.Method = p.str()
			case "params":
				p.params(&v.Params)
			default:
				p.skip()
			}
		})
	case *Params:
		p.params(v)
	}
	p.ws()
	if p.i != len(b) {
		return errJSON
	}
	return nil
}

func (p *hp) params(v *Params) {
	p.obj(func(k []byte) {
		switch string(k) {
		case "message":
			m := new(Message)
			v.Message = m
			p.obj(func(k []byte) {
				switch string(k) {
				case "messageId":
					m.MessageID = p.str()
				case "contextId":
					m.ContextID = p.str()
				case "taskId":
					m.TaskID = p.str()
				case "role":
					m.Role = p.str()
				case "parts":
					p.arr(func() {
						var pt Part
						p.obj(func(k []byte) {
							if string(k) == "text" {
								pt.Text = p.str()
							} else {
								p.skip()
							}
						})
						m.Parts = append(m.Parts, pt)
					})
				default:
					p.skip()
				}
			})
		case "configuration":
			c := new(Config)
			v.Configuration = c
			p.obj(func(k []byte) {
				if string(k) == "returnImmediately" && p.b[p.i] == 't' {
					c.ReturnImmediately = true
				}
				p.skip()
			})
		case "id":
			v.ID = p.str()
		case "pageSize":
			s := p.i
			p.skip()
			v.PageSize, _ = strconv.Atoi(string(p.b[s:p.i]))
		default:
			p.skip()
		}
	})
}

func (p *hp) ws() {
	for p.i < len(p.b) && (p.b[p.i] == ' ' || p.b[p.i] == '\n' || p.b[p.i] == '\r' || p.b[p.i] == '\t') {
		p.i++
	}
}

func (p *hp) want(c byte) {
	if p.b[p.i] != c {
		panic(errJSON)
	}
	p.i++
}

func (p *hp) obj(f func(k []byte)) {
	p.ws()
	p.want('{')
	p.ws()
	if p.b[p.i] == '}' {
		p.i++
		return
	}
	for {
		p.ws()
		k := p.rawStr()
		p.ws()
		p.want(':')
		p.ws()
		f(k)
		p.ws()
		if p.b[p.i] == ',' {
			p.i++
			continue
		}
		p.want('}')
		return
	}
}

func (p *hp) arr(f func()) {
	p.ws()
	p.want('[')
	p.ws()
	if p.b[p.i] == ']' {
		p.i++
		return
	}
	for {
		p.ws()
		f()
		p.ws()
		if p.b[p.i] == ',' {
			p.i++
			continue
		}
		p.want(']')
		return
	}
}

// rawStr returns the bytes between the quotes, escapes left in place.
func (p *hp) rawStr() []byte {
	p.want('"')
	s := p.i
	for {
		j := bytes.IndexByte(p.b[p.i:], '"')
		if j < 0 {
			panic(errJSON)
		}
		p.i += j
		n := 0
		for k := p.i - 1; k >= s && p.b[k] == '\\'; k-- {
			n++
		}
		p.i++
		if n%2 == 0 {
			return p.b[s : p.i-1]
		}
	}
}

func (p *hp) str() string {
	r := p.rawStr()
	if !utf8.Valid(r) {
		panic(errJSON)
	}
	if safeLen(r) == len(r) {
		return string(r)
	}
	for _, c := range r {
		if c < 0x20 {
			panic(errJSON)
		}
	}
	out := make([]byte, 0, len(r))
	for i := 0; i < len(r); i++ {
		if r[i] != '\\' {
			out = append(out, r[i])
			continue
		}
		i++
		switch r[i] {
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case '"', '\\', '/':
			out = append(out, r[i])
		case 'u':
			v, err := strconv.ParseUint(string(r[i+1:i+5]), 16, 16)
			if err != nil {
				panic(errJSON)
			}
			i += 4
			c := rune(v)
			if utf16.IsSurrogate(c) && i+6 < len(r) && r[i+1] == '\\' && r[i+2] == 'u' {
				if v2, err := strconv.ParseUint(string(r[i+3:i+7]), 16, 16); err == nil {
					if d := utf16.DecodeRune(c, rune(v2)); d != utf8.RuneError {
						c = d
						i += 6
					}
				}
			}
			out = utf8.AppendRune(out, c)
		default:
			panic(errJSON)
		}
	}
	return string(out)
}

func (p *hp) skip() {
	p.ws()
	switch c := p.b[p.i]; c {
	case '"':
		p.rawStr()
	case '{':
		p.obj(func([]byte) { p.skip() })
	case '[':
		p.arr(p.skip)
	default:
		s := p.i
		for p.i < len(p.b) {
			c := p.b[p.i]
			if c == ',' || c == '}' || c == ']' || c <= ' ' {
				break
			}
			p.i++
		}
		if s == p.i {
			panic(errJSON)
		}
	}
}
