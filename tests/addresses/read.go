// What Go's two libraries make of the texts of corpus.json: kubectl and the API server read addresses by them.
//
// Prints, for each library, the places of the probes that each text contains; null: it is refused.
package main

import (
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"strings"
)

type corpus struct {
	Probes []string
	Texts  []struct{ Text string }
}

func withNetip(text string) func(probe string) bool {
	var contains func(netip.Addr) bool
	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil
		}
		contains = prefix.Contains
	} else {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil
		}
		contains = func(probe netip.Addr) bool { return probe == address }
	}
	return func(probe string) bool { return contains(netip.MustParseAddr(probe)) }
}

func withNet(text string) func(probe string) bool {
	if strings.Contains(text, "/") {
		_, block, err := net.ParseCIDR(text)
		if err != nil {
			return nil
		}
		return func(probe string) bool { return block.Contains(net.ParseIP(probe)) }
	}
	address := net.ParseIP(text)
	if address == nil {
		return nil
	}
	return func(probe string) bool { return address.Equal(net.ParseIP(probe)) }
}

func read(known corpus, library func(string) func(string) bool) [][]int {
	var readings [][]int
	for _, row := range known.Texts {
		contains := library(row.Text)
		if contains == nil {
			readings = append(readings, nil)
			continue
		}
		within := []int{}
		for place, probe := range known.Probes {
			if contains(probe) {
				within = append(within, place)
			}
		}
		readings = append(readings, within)
	}
	return readings
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	var known corpus
	if err := json.NewDecoder(file).Decode(&known); err != nil {
		panic(err)
	}
	json.NewEncoder(os.Stdout).Encode(map[string][][]int{
		"go net/netip": read(known, withNetip),
		"go net":       read(known, withNet),
	})
}
