// Package a2a is the A2A 1.0 protocol as Go types: the data model (specification section 4), the
// operations (section 3) as the [Service] interface, and the error table (section 5.4).
//
// Names are the specification's. The normative source is a2a.proto; every field of every message is here.
// Pointers stand only where the proto says "optional" or where a message may be absent; a zero string,
// slice or time is "absent".
//
// A value that was handed to a [Service], returned by one, or read from a store is shared and must not be
// changed. Copy before changing.
//
// # JSON
//
// Every message has AppendJSON, MarshalJSON and UnmarshalJSON in the ProtoJSON form the specification asks
// for (section 5.5): camelCase names, required fields always present, required lists never null, times in
// UTC with milliseconds. Reading is strict about what could mean two things (duplicate names, unknown enum
// values, trailing bytes, invalid UTF-8: an [Error] with the field's path) and lenient about what cannot
// (null, unknown fields, snake_case names).
package a2a
