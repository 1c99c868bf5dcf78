// Package grpc is the gRPC binding (specification section 10): [Handler] serves an [a2a.Service], and
// [NewClient] is an a2a.Service that calls one.
//
// A server needs the options of [ServerOptions]; a connection for a client is best made with [Dial].
//
// On this binding structured content ([a2a.Data], metadata) is a google.protobuf.Value: a number becomes a
// double, so an integer beyond 2^53 becomes the nearest double and a number beyond the range of a double is
// refused, and white space and the order of names are lost. Nulls and empty objects are kept.
package grpc
