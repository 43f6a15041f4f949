/** Parameters of a query, in every form in which an origin may read them. */

/**
 * The values of a parameter, in all forms of its name and decoded once. Some frameworks ignore the case of a name; Rails,
 * PHP and Express read `rows[]`, `rows[0]` and `[rows]` as `rows`, PHP `page.size` as `page_size`. A `;` separates
 * parameters for some and is part of a value for others: the values of both are in the list.
 */
export function parameterValues(url: URL, name: string): string[] {
  const wanted = comparable(name);
  return parametersOf(url)
    .filter((parameter) => isReadAs(parameter.name, wanted))
    .map(({ value }) => value);
}

interface Parameter {
  /** In its comparable form. */
  readonly name: string;
  readonly value: string;
}

/** By the URL of a request, so that several policies parse its query once. */
const parsed = new WeakMap<URL, readonly Parameter[]>();

function parametersOf(url: URL): readonly Parameter[] {
  const known = parsed.get(url);
  if (known !== undefined) return known;
  const { search } = url;
  const readings = search.includes(";") ? [search, search.replaceAll(";", "&")] : [search];
  const parameters = readings.flatMap((reading) =>
    Array.from(new URLSearchParams(reading), ([name, value]) => ({
      name: comparable(name),
      value,
    })),
  );
  parsed.set(url, parameters);
  return parameters;
}

/** A name without what precedes or ends it in some frameworks, and without its case: "ſ" is "S" in upper case. */
const comparable = (name: string): string =>
  name
    .replace(/\0[^]*$/, "")
    .replace(/^[\s[\]]+/, "")
    .toUpperCase()
    .toLowerCase();

function isReadAs(name: string, wanted: string): boolean {
  if (name.startsWith(wanted) && /^(?:$|[[\]])/.test(name.slice(wanted.length))) return true;
  return underscored(name) === underscored(wanted);
}

/** PHP reads these characters in a name as underscores. */
const underscored = (name: string): string => name.replace(/[ .[]/g, "_");
