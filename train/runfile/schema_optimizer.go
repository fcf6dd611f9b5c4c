package runfile

import (
	"reflect"
	"slices"

	"gputrain/optim"
)

// tellOptimizers adds the optimizers' own parameters to the schema of the section optimizer, where they stand beside its keys or below
// parameters. A file that names an optimizer has those of that one; a file without a name may be laid over one that has it.
func tellOptimizers(section schema) error {
	keys := section["properties"].(schema)
	common := sortedKeys(keys)
	forms := map[string][]schema{}
	var branches []schema
	for _, name := range optim.Names() {
		d, err := optim.Describe(name)
		if err != nil {
			return err
		}
		all, beside, names := schema{}, schema{}, slices.Clone(common)
		for _, p := range d.Parameters {
			s := parameterSchema(reflect.TypeOf(p.Default))
			if !slices.ContainsFunc(forms[p.Name], func(other schema) bool { return reflect.DeepEqual(s, other) }) {
				forms[p.Name] = append(forms[p.Name], parameterSchema(reflect.TypeOf(p.Default)))
			}
			s["description"], s["default"] = p.Doc, p.Default
			all[p.Name] = s
			if !slices.Contains(common, p.Name) {
				beside[p.Name] = s
				names = append(names, p.Name)
			}
		}
		beside["parameters"] = schema{"type": []string{"object", "null"}, "additionalProperties": false, "properties": all}
		branches = append(branches, schema{
			"if":   schema{"type": "object", "required": []string{"name"}, "properties": schema{"name": schema{"const": name}}},
			"then": schema{"properties": beside, "propertyNames": schema{"enum": names}},
		})
	}
	all := schema{}
	for name, f := range forms {
		all[name] = schema{"anyOf": f}
		if !slices.Contains(common, name) {
			keys[name] = all[name]
		}
	}
	parameters := keys["parameters"].(schema)
	parameters["additionalProperties"], parameters["properties"] = false, all
	section["allOf"] = branches
	return nil
}

// parameterSchema is schemaOf of an optimizer's parameter, for which one value is no list.
func parameterSchema(t reflect.Type) schema {
	if t.Kind() == reflect.Slice {
		return schema{"type": []string{"array", "null"}, "items": schemaOf(t.Elem(), "")}
	}
	return schemaOf(t, "")
}
