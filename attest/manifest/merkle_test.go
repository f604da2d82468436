package manifest

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"testing"
)

// The test vectors of the Certificate Transparency reference implementation:
// tree heads over the first n of these leaves.
func TestTreeHeads(t *testing.T) {
	leaves := []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"}
	roots := []string{
		"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		"d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		"4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
		"76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
		"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
		"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	}
	var tree Tree
	if got := tree.Root().String(); got != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		t.Errorf("empty tree: %s", got)
	}
	for i, leaf := range leaves {
		b, err := hex.DecodeString(leaf)
		if err != nil {
			t.Fatal(err)
		}
		tree.Append(b)
		if got := tree.Root().String(); got != roots[i] {
			t.Errorf("%d leaves: %s, want %s", i+1, got, roots[i])
		}
	}
}

func TestInclusionProofs(t *testing.T) {
	for n := int64(1); n <= 33; n++ {
		var leaves []Hash
		for i := range n {
			leaves = append(leaves, LeafHash(fmt.Appendf(nil, "line %d", i)))
		}
		root := subtree(leaves)
		for i := range n {
			proof, err := Prove(leaves, i)
			if err != nil {
				t.Fatal(err)
			}
			if !Included(root, leaves[i], i, n, proof) {
				t.Fatalf("leaf %d of %d: its own proof is refused", i, n)
			}
			if n > 1 && Included(root, leaves[(i+1)%n], i, n, proof) {
				t.Fatalf("leaf %d of %d: proves another leaf", i, n)
			}
			if n > 1 && Included(root, leaves[i], (i+1)%n, n, proof) {
				t.Fatalf("leaf %d of %d: proves another place", i, n)
			}
			for k := range proof {
				bad := append([]Hash{}, proof...)
				bad[k][0] ^= 1
				if Included(root, leaves[i], i, n, bad) || Included(root, leaves[i], i, n, proof[:k]) {
					t.Fatalf("leaf %d of %d: a changed or short proof passes", i, n)
				}
			}
			if Included(root, leaves[i], i, n, append(append([]Hash{}, proof...), root)) {
				t.Fatalf("leaf %d of %d: a long proof passes", i, n)
			}
		}
		if _, err := Prove(leaves, n); err == nil {
			t.Fatalf("a proof of line %d of %d", n, n)
		}
	}
	if Included(Hash{}, Hash{}, 0, 0, nil) || Included(Hash{}, Hash{}, -1, 1, nil) {
		t.Error("a leaf of an empty tree, or before the first")
	}
	for _, s := range []string{"", "zz", "AB" + fmt.Sprintf("%062d", 0), fmt.Sprintf("%063d", 0)} {
		if _, err := ParseHash(s); err == nil {
			t.Errorf("ParseHash(%q) is accepted", s)
		}
	}
}

// Proofs at the sizes at which a tree changes its form, with each thing that a proof says
// wrong by itself: the place, the size, the leaf, one hash, two hashes in each other's
// place, a hash too few and one too many.
func TestInclusionProofsThatLie(t *testing.T) {
	sizes := map[int64]bool{1: true, 2: true, 3: true}
	for n := int64(4); n <= 64; n *= 2 {
		sizes[n-1], sizes[n], sizes[n+1] = true, true, true
	}
	for n := range sizes {
		var leaves []Hash
		for i := range n {
			leaves = append(leaves, LeafHash(fmt.Appendf(nil, "line %d of %d", i, n)))
		}
		root := subtree(leaves)
		for i := range n {
			proof, err := Prove(leaves, i)
			if err != nil || !Included(root, leaves[i], i, n, proof) {
				t.Fatalf("leaf %d of %d: its own proof is refused (%v)", i, n, err)
			}
			refused := func(what string, root, leaf Hash, at, size int64, proof []Hash) {
				t.Helper()
				if Included(root, leaf, at, size, proof) {
					t.Errorf("leaf %d of %d: accepted with %s", i, n, what)
				}
			}
			for at := int64(-1); at <= n+1; at++ {
				if at != i {
					refused(fmt.Sprint("place ", at), root, leaves[i], at, n, proof)
				}
			}
			refused("no place", root, leaves[i], math.MaxInt64, n, proof)
			// Another size is refused where it gives the path another form. Where it
			// does not, the proof is as true of that tree: who asks compares the size
			// with the signed one first (verify.VerifyRow).
			for _, size := range []int64{0, -1, math.MinInt64, i, math.MaxInt64} {
				if size != n {
					refused(fmt.Sprint("size ", size), root, leaves[i], i, size, proof)
				}
			}
			refused("another root", LeafHash(nil), leaves[i], i, n, proof)
			for k := range proof {
				bad := slices.Clone(proof)
				bad[k][31] ^= 0x80
				refused(fmt.Sprint("hash changed at ", k), root, leaves[i], i, n, bad)
				refused(fmt.Sprint("hash missing at ", k), root, leaves[i], i, n, slices.Delete(slices.Clone(proof), k, k+1))
				refused(fmt.Sprint("hash twice at ", k), root, leaves[i], i, n, slices.Insert(slices.Clone(proof), k, proof[k]))
				if k > 0 {
					bad = slices.Clone(proof)
					bad[k], bad[k-1] = bad[k-1], bad[k]
					refused(fmt.Sprint("hashes exchanged at ", k), root, leaves[i], i, n, bad)
				}
				// The sibling in the leaf's place, and the leaf in the sibling's.
				bad = slices.Clone(proof)
				bad[k] = leaves[i]
				refused(fmt.Sprint("leaf and sibling exchanged at ", k), root, proof[k], i, n, bad)
			}
			if n > 1 {
				refused("the root as a leaf", root, root, i, n, nil)
			}
		}
	}
}
