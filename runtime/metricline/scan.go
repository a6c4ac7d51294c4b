package metricline

import (
	"bytes"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds nesting, so that neither this scanner nor a reader of stored
// chart or media data can run out of stack.
const maxDepth = 1000

var (
	errSyntax = errors.New("not JSON")
	errDeep   = errors.New("nested too deep")
)

type kind uint8

const (
	absent kind = iota
	object
	array
	str
	number // JSON's own grammar, or NaN, Infinity, -Infinity
	boolean
	null
)

// value is a scanned JSON value: where it stands in the line and what it is.
type value struct {
	raw  []byte
	kind kind
	// num is a number's value if exact is set; else float reads it from raw.
	exact bool
	num   float64
}

// scanner walks over JSON as RFC 8259 has it, widened by the bare words NaN,
// Infinity and -Infinity that Python prints. It allocates nothing.
type scanner struct {
	b []byte
	i int
	// plain tells of the last string whether it has no escapes and is all ASCII.
	plain bool
	// exact and num are the last number's, as in value.
	exact bool
	num   float64
	// odd is set when a value holds something that strict JSON or UTF-8 does not
	// allow and that copyJSON repairs.
	odd bool
}

func (s *scanner) space() {
	if s.i < len(s.b) && s.b[s.i] > ' ' {
		return // the common case
	}
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek gives the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// value scans one value and leaves the position behind it.
func (s *scanner) value(depth int) (value, error) {
	if depth > maxDepth {
		return value{}, errDeep
	}
	s.space()
	from := s.i
	var k kind
	var err error
	switch c := s.peek(); {
	case c == '{':
		k = object
		err = s.members(depth)
	case c == '[':
		k = array
		err = s.elements(depth)
	case c == '"':
		k = str
		err = s.skipString()
	case c == '-' || (c >= '0' && c <= '9') || c == 'N' || c == 'I':
		err = s.skipNumber()
		if err != nil {
			return value{}, err
		}
		return value{s.b[from:s.i], number, s.exact, s.num}, nil
	case c == 't':
		k = boolean
		err = s.word("true")
	case c == 'f':
		k = boolean
		err = s.word("false")
	case c == 'n':
		k = null
		err = s.word("null")
	default:
		err = errSyntax
	}
	if err != nil {
		return value{}, err
	}
	return value{raw: s.b[from:s.i], kind: k}, nil
}

// member scans what comes before a member's value: its raw key, quotes included,
// and the colon. more is false behind the object's end.
func (s *scanner) member(first bool) (key []byte, more bool, err error) {
	s.space()
	c := s.peek()
	if c == '}' {
		s.i++
		return nil, false, nil
	}
	if !first {
		if c != ',' {
			return nil, false, errSyntax
		}
		s.i++
		s.space()
		c = s.peek()
	}
	if c != '"' {
		return nil, false, errSyntax
	}
	from := s.i
	if err := s.skipString(); err != nil {
		return nil, false, err
	}
	key = s.b[from:s.i]
	s.space()
	if s.peek() != ':' {
		return nil, false, errSyntax
	}
	s.i++
	return key, true, nil
}

// members scans an object that begins here.
func (s *scanner) members(depth int) error {
	s.i++ // {
	for first := true; ; first = false {
		_, more, err := s.member(first)
		if err != nil || !more {
			return err
		}
		if _, err := s.value(depth + 1); err != nil {
			return err
		}
	}
}

// fields scans an object at the second level, and gives its members to f.
func (s *scanner) fields(f *fields) error {
	s.i++ // {
	for first := true; ; first = false {
		key, more, err := s.member(first)
		if err != nil || !more {
			return err
		}
		v, err := s.value(3)
		if err != nil {
			return err
		}
		if bytes.IndexByte(key, '\\') >= 0 {
			key = []byte(`"` + text(key) + `"`)
		}
		f.set(key[1:len(key)-1], v)
	}
}

func (s *scanner) elements(depth int) error {
	s.i++ // [
	s.space()
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		if _, err := s.value(depth + 1); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			return nil
		default:
			return errSyntax
		}
	}
}

func (s *scanner) word(w string) error {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return errSyntax
	}
	s.i += len(w)
	return nil
}

func (s *scanner) skipString() error {
	s.i++                         // "
	for i, c := range s.b[s.i:] { // the common case
		if c == '"' {
			s.i += i + 1
			s.plain = true
			return nil
		}
		if c < 0x20 || c == '\\' || c >= utf8.RuneSelf {
			s.i += i
			break
		}
	}
	s.plain = false
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return nil
		case c < 0x20:
			return errSyntax
		case c == '\\':
			s.i++
			switch s.peek() {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				s.i++
			case 'u':
				r := hex4(s.b[s.i+1:])
				if r < 0 {
					return errSyntax
				}
				if r == 0 || utf16.IsSurrogate(r) {
					s.odd = true
				}
				s.i += 5
			default:
				return errSyntax
			}
		case c < utf8.RuneSelf:
			s.i++
		default:
			r, n := utf8.DecodeRune(s.b[s.i:])
			if r == utf8.RuneError && n == 1 {
				s.odd = true
			}
			s.i += n
		}
	}
	return errSyntax
}

// powers are the powers of ten that a float64 holds exactly.
var powers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// skipNumber scans a number. Where its digits and its power of ten are exact as
// float64, their quotient is rounded once and so is the value.
func (s *scanner) skipNumber() error {
	s.exact = false
	i := s.i
	if s.b[i] == '-' {
		i++
	}
	var digits uint64
	from := i
	for ; i < len(s.b) && s.b[i]-'0' <= 9; i++ {
		digits = digits*10 + uint64(s.b[i]-'0')
	}
	n := i - from
	if n == 0 || (n > 1 && s.b[from] == '0') {
		return s.skipOddNumber()
	}
	decimals := 0
	if i < len(s.b) && s.b[i] == '.' {
		i++
		from = i
		for ; i < len(s.b) && s.b[i]-'0' <= 9; i++ {
			digits = digits*10 + uint64(s.b[i]-'0')
		}
		if decimals = i - from; decimals == 0 {
			return s.skipOddNumber()
		}
	}
	if i < len(s.b) && s.b[i]|0x20 == 'e' {
		return s.skipOddNumber()
	}
	if n+decimals <= 19 && digits <= 1<<53 { // 19 digits fit into 64 bits
		s.exact = true
		s.num = float64(digits)
		if decimals > 0 {
			s.num /= powers[decimals]
		}
		if s.b[s.i] == '-' {
			s.num = -s.num
		}
	}
	s.i = i
	return nil
}

// skipOddNumber scans what is a number in the rarer forms, or none.
func (s *scanner) skipOddNumber() error {
	if s.peek() == 'N' {
		s.odd = true
		return s.word("NaN")
	}
	if s.peek() == '-' {
		s.i++
	}
	switch c := s.peek(); {
	case c == 'I':
		s.odd = true
		return s.word("Infinity")
	case c == '0':
		s.i++
	case c >= '1' && c <= '9':
		s.digits()
	default:
		return errSyntax
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return errSyntax
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return errSyntax
		}
	}
	return nil
}

// digits skips decimal digits and tells whether there was one.
func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}
