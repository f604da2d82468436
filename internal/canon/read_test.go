package canon

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

type word string

type nestedValue struct {
	A string                `json:"a"`
	N int8                  `json:"n"`
	M map[word]*nestedValue `json:"m,omitempty"`
	L []nestedValue         `json:"l,omitempty"`
	P **string              `json:"p,omitempty"`
	R json.RawMessage       `json:"r,omitempty"`
	Q *json.RawMessage      `json:"q,omitempty"`
}

type embeddedValue struct{ E int }

// everything has a member of every kind that is read in a way of its own, and of
// those that are not.
type everything struct {
	nestedValue `json:"inner"`
	embeddedValue
	Text    word              `json:"text"`
	Yes     bool              `json:"yes"`
	Big     int64             `json:"big"`
	Small   int16             `json:"small"`
	Uint    uint8             `json:"uint"`
	Real    float64           `json:"real"`
	Number  json.Number       `json:"number"`
	Quoted  int               `json:"quoted,string"`
	Any     any               `json:"any"`
	Bytes   []byte            `json:"bytes"`
	Array   [2]int            `json:"array"`
	Words   []word            `json:"words"`
	Nested  [][]*int          `json:"nested"`
	Map     map[string]string `json:"map"`
	Numbers map[int]string    `json:"numbers"`
	When    time.Time         `json:"when"`
	Plain   *nestedValue      `json:"plain"`
}

// plainOnly has no member that makes its struct one of encoding/json's.
type plainOnly struct {
	Text  word              `json:"text"`
	Yes   bool              `json:"yes"`
	Small int16             `json:"small"`
	Words []word            `json:"words"`
	Deep  [][]*int          `json:"deep"`
	Map   map[string]string `json:"map"`
	Maps  map[word][]bool   `json:"maps"`
	Inner nestedValue       `json:"inner"`
	Far   **nestedValue     `json:"far"`
	Raw   json.RawMessage   `json:"raw"`
	Real  float64           `json:"real"`
	Any   any               `json:"any"`
}

var readSeeds = []string{
	`{}`, `null`, `[]`, `"x"`, `1`, `true`,
	`{"text":"a\u0041\ud83d\ude00\n","yes":true,"small":-32768,"words":["a","","b"],"deep":[[1,null,3],[],null],"map":{"k":"v","":"w"},"maps":{"x":[true,false],"y":null}}`,
	`{"inner":{"a":"x","n":127,"m":{"k":{"a":"y","n":0},"z":null},"l":[{"a":"1","n":1},{"a":"2","n":2}],"p":"s","r":{"any":[1,2]},"q":null},"far":{"a":"f","n":1,"r":null,"q":[1]},"raw":[1, 2],"real":1.5,"any":{"x":[1]}}`,
	`{"small":32768}`, `{"small":1.5}`, `{"small":"1"}`, `{"text":1}`, `{"yes":"true"}`, `{"words":{}}`, `{"map":[]}`, `{"deep":[1]}`, `{"inner":[]}`, `{"inner":"x"}`, `{"words":null}`, `{"map":null}`, `{"raw":null}`, `{"text":null}`,
	`{"uint":255,"number":1,"quoted":"7","bytes":"AAE=","array":[1,2,3],"numbers":{"1":"a"},"when":"2026-11-02T12:00:00Z","plain":{"a":"b","n":3},"E":4}`,
	`{"uint":256}`, `{"bytes":"!"}`, `{"quoted":7}`, `{"when":"never"}`, `{"numbers":{"x":"a"}}`, `{ "text" : "spaces" , "yes" : false }`,
}

// asJSON holds what is read of a document against what encoding/json reads of it.
func asJSON[T any](t *testing.T, data []byte) {
	t.Helper()
	var have, want T
	untouched := have
	_, err := UnmarshalJSON(data, Limits{}, &have)
	wrong := json.Unmarshal(data, &want)
	switch {
	case err != nil && ReasonOf(err) == "":
		t.Errorf("%T of %s: error of another kind: %v", have, data, err)
	case err == nil && wrong != nil:
		t.Errorf("%T of %s: read, although encoding/json says: %v", have, data, wrong)
	case err == nil && !reflect.DeepEqual(have, want):
		t.Errorf("%T of %s: read as %+v, by encoding/json as %+v", have, data, have, want)
	case err != nil && !reflect.DeepEqual(have, untouched):
		t.Errorf("%T of %s: refused, and changed to %+v", have, data, have)
	case err != nil && wrong == nil && ReasonOf(err) == ReasonType && CheckJSON(data, Limits{}) == nil && !hasNull(data):
		t.Errorf("%T of %s: refused, although encoding/json reads it: %v", have, data, err)
	}
}

// hasNull: null is refused where encoding/json takes it for nothing.
func hasNull(data []byte) bool {
	for i := range data {
		if len(data)-i >= 4 && string(data[i:i+4]) == "null" {
			return true
		}
	}
	return false
}

func allKinds(t *testing.T, data []byte) {
	t.Helper()
	asJSON[everything](t, data)
	asJSON[plainOnly](t, data)
	asJSON[map[string]plainOnly](t, data)
	asJSON[[]nestedValue](t, data)
	asJSON[*string](t, data)
	asJSON[any](t, data)
}

func TestReadAsJSON(t *testing.T) {
	read := 0
	for _, s := range readSeeds {
		allKinds(t, []byte(s))
		var p plainOnly
		if _, err := UnmarshalJSON([]byte(s), Limits{}, &p); err == nil {
			read++
		}
	}
	if read < 6 {
		t.Errorf("only %d documents were read", read)
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, s := range readSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { allKinds(t, data) })
}
