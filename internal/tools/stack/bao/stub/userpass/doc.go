// Package userpass is not needed: only tests of the server log in by it.
package userpass
