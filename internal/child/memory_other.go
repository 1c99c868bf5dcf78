//go:build !linux

package child

// resident is not known.
func resident(int) int64 { return 0 }
