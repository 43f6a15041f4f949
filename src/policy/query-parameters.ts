/** Reads query parameters in every form in which an origin may read them. */

/**
 * The decoded values of a parameter, under all forms of its name. Some frameworks ignore the case of a name. Rails, PHP
 * and Express read `rows[]`, `rows[0]` and `[rows]` as `rows`, and PHP reads `page.size` as `page_size`. Some frameworks
 * separate parameters at `;`, so the values with and without that separation are both in the list.
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

/** A name without the characters that some frameworks drop, and case-folded ("ſ" is "S" in upper case). */
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
