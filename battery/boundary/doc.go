// Package boundary builds one phase's network namespaces: boxes, router and
// world.
package boundary
