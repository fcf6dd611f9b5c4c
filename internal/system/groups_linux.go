package system

import (
	"math"
	"os"
	"path/filepath"
	"strings"
)

// memoryGroups bounds this process's memory: Linux's control groups, of version 1, 2 or both. A group's limit holds for all below it, so that the least on the
// way up counts.
type memoryGroups struct{ root string } // "" on a real machine, a folder in tests

// memoryFields are the files of a version, and what stands before the fields of memory.stat: file pages, which the group can drop.
type memoryFields struct{ limit, used, stat string }

var (
	groupsV1 = memoryFields{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"}
	groupsV2 = memoryFields{"memory.max", "memory.current", ""}
)

// available is what the groups can still take, and the least limit of them; MaxUint64 where there is none.
func (g memoryGroups) available() (free, limit uint64) {
	free, limit = math.MaxUint64, math.MaxUint64
	mounts := g.lines("/proc/self/mountinfo")
	for _, own := range g.lines("/proc/self/cgroup") { // "4:memory:/a/b", or "0::/a/b" of version 2
		parts := strings.SplitN(own, ":", 3)
		if len(parts) < 3 {
			continue
		}
		fields, kind := groupsV1, "cgroup"
		switch {
		case parts[0] == "0" && parts[1] == "":
			fields, kind = groupsV2, "cgroup2"
		case !strings.Contains(","+parts[1]+",", ",memory,"):
			continue
		}
		for _, mount := range mounts {
			at, ok := groupMount(mount, kind, parts[2])
			if !ok {
				continue
			}
			for top := at.top; ; at.dir = filepath.Dir(at.dir) {
				most, left := fields.read(g.root + at.dir)
				limit, free = min(limit, most), min(free, left)
				if len(at.dir) <= len(top) {
					break
				}
			}
		}
	}
	return free, limit
}

// groupPlace is the folder of a group, and that of the highest one that is to be seen.
type groupPlace struct{ top, dir string }

// groupMount finds the folder of a group below a line of mountinfo, which is "31 23 0:28 ROOT MOUNT options ... - TYPE source options". In a container ROOT is the
// container's group, or the group's path is not below ROOT and means nothing there.
func groupMount(line, kind, group string) (groupPlace, bool) {
	first, second, found := strings.Cut(line, " - ")
	at, of := strings.Fields(first), strings.Fields(second)
	if !found || len(at) < 5 || len(of) < 3 || of[0] != kind || kind == "cgroup" && !strings.Contains(","+of[2]+",", ",memory,") {
		return groupPlace{}, false
	}
	root, mount := at[3], at[4]
	below, err := filepath.Rel(root, group)
	if err != nil || below == ".." || strings.HasPrefix(below, "../") {
		below = "."
	}
	return groupPlace{mount, filepath.Join(mount, below)}, true
}

// read is the limit of the group of a folder, and what it can still take; file pages that it can drop count as free. MaxUint64: it has none.
func (f memoryFields) read(dir string) (limit, free uint64) {
	limit, errLimit := readUint(dir + "/" + f.limit) // "max" is no number, hence no bound
	used, errUsed := readUint(dir + "/" + f.used)
	if errLimit != nil || errUsed != nil {
		return math.MaxUint64, math.MaxUint64
	}
	for _, pages := range []string{"inactive_file", "active_file"} { // a checkpoint that was written or read is among the active ones
		if droppable := meminfo(dir+"/memory.stat", f.stat+pages); droppable <= used {
			used -= droppable
		}
	}
	return limit, limit - min(used, limit)
}

func (g memoryGroups) lines(path string) []string {
	raw, err := os.ReadFile(g.root + path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}
