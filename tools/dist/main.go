// Command dist writes an archive of the same bytes for the same files, and checksums of archives. The archive is a zip file or a gzipped tar file, by its
// name; the paths behind it are what it holds, below a folder with its name. It is run in this folder's module:
//
//	go run -C tools ./dist -time 1700000000 ../bin/dist/gputrain-linux-amd64.tar.gz gputrain=../bin/gputrain docs=../docs
//	go run -C tools ./dist -sums ../bin/dist/gputrain-*
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// largest is the size that no archive may have.
const largest = 25_000_000

func main() {
	at := flag.Int64("time", 0, "seconds since 1970 that all files are of")
	sums := flag.Bool("sums", false, "write SHA256SUMS beside the archives that are named")
	flag.Parse()
	err := errors.New("no archive is named")
	if flag.NArg() > 0 {
		if *sums {
			err = checksums(flag.Args())
		} else {
			err = archive(flag.Arg(0), flag.Args()[1:], time.Unix(*at, 0).UTC())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// entry is a file of an archive.
type entry struct {
	name, source string
	mode         fs.FileMode
}

// entries are the files below `name=source` in the order of their names.
func entries(root string, named []string) (all []entry, err error) {
	for _, n := range named {
		name, source, ok := strings.Cut(n, "=")
		if !ok {
			return nil, fmt.Errorf("%q: wanted name=path", n)
		}
		err := filepath.WalkDir(source, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			below, err := filepath.Rel(source, p)
			mode := fs.FileMode(0o644)
			if base := path.Base(name); base == "gputrain" || base == "gputrain.exe" || strings.HasSuffix(p, ".sh") {
				mode = 0o755
			}
			all = append(all, entry{path.Join(root, name, filepath.ToSlash(below)), p, mode})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// archive writes the files, all of that time and of nobody, so that nothing but their contents counts.
func archive(to string, named []string, at time.Time) error {
	root, zipped := strings.CutSuffix(filepath.Base(to), ".zip")
	if !zipped {
		root = strings.TrimSuffix(root, ".tar.gz")
	}
	files, err := entries(root, named)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	write := writeTar
	if zipped {
		write = writeZip
	}
	if err := errors.Join(write(out, files, at), out.Close()); err != nil {
		return err
	}
	info, err := os.Stat(to)
	if err == nil && info.Size() > largest {
		err = fmt.Errorf("%s: found %d bytes, wanted at most %d", to, info.Size(), largest)
	}
	return err
}

func writeTar(to io.Writer, files []entry, at time.Time) error {
	packed, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(packed)
	for _, f := range files {
		content, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: f.name, Mode: int64(f.mode), Size: int64(len(content)), ModTime: at, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), packed.Close())
}

func writeZip(to io.Writer, files []entry, at time.Time) error {
	w := zip.NewWriter(to)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestCompression) })
	for _, f := range files {
		content, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		part, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(content); err != nil {
			return err
		}
	}
	return w.Close()
}

// checksums writes what `sha256sum -c` reads, and prints it with the sizes.
func checksums(archives []string) error {
	slices.Sort(archives)
	var lines strings.Builder
	for _, a := range archives {
		content, err := os.ReadFile(a)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%x  %s\n", sha256.Sum256(content), filepath.Base(a))
		lines.WriteString(line)
		fmt.Printf("%5.1f MB  %s", float64(len(content))/1e6, line)
	}
	return os.WriteFile(filepath.Join(filepath.Dir(archives[0]), "SHA256SUMS"), []byte(lines.String()), 0o666)
}
