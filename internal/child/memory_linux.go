package child

import (
	"bytes"
	"os"
	"strconv"
)

// resident returns how many bytes of memory the processes of a group have in use. What they share counts for each.
func resident(group int) int64 {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer dir.Close() //nolint:errcheck // it was only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0
	}
	var pages int64
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The name of the program, in parentheses, may hold anything: what is wanted comes after it.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		const pgrp, rss = 2, 21
		if len(fields) > rss && string(fields[pgrp]) == strconv.Itoa(group) {
			n, _ := strconv.ParseInt(string(fields[rss]), 10, 64)
			pages += n
		}
	}
	return pages * int64(os.Getpagesize())
}
