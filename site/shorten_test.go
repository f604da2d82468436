package site

import "testing"

func TestShorten(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"a.css", "/* x\n y */\n.a > .b, .c:hover {\n  color: red;\n  margin: clamp(1rem, 2vw + 1rem, 3rem) 0;\n}\n", ".a>.b,.c:hover{color:red;margin:clamp(1rem,2vw + 1rem,3rem) 0}\n"},
		{"a.css", "@media (min-width: 60rem) { a :focus { content: \"+\"; } }", "@media (min-width:60rem){a :focus{content:\"+\"}}\n"},
		{"a.js", "// why\n\nconst a = \"// kept\"; // kept too\n  b();\n", "const a = \"// kept\"; // kept too\nb();"},
		{"a.js", "  const f = (a, b) => a !== b && { c: \" = , \" } || [a ?? b, a ? 1 : 2];\n", "const f=(a,b)=>a!==b&&{c:\" = , \"}||[a??b,a?1:2];"},
		{"a.js", "a += b - -c;\nx = y / z ; // a\nfor (const i of l) if (i in m) { return { i }; } else { d(); }\n", "a +=b - -c;x = y / z ; // a\nfor(const i of l) if(i in m){return{i};}else{d();}\n"},
		{"a.js", "t = `a , b`;\nr = /a , b/;\n", "t = `a , b`;\nr = /a , b/;\n"},
		{"a.svg", "<svg> </svg>\n", "<svg> </svg>\n"},
	} {
		if got := string(shorten(c.name, []byte(c.in))); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
