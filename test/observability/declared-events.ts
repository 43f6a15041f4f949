/** The fields of each event in the type `Event`. */
import { readFileSync } from "node:fs";

export interface DeclaredField {
  readonly name: string;
  readonly isOptional: boolean;
  /** The type as in the source, such as `number | null`. */
  readonly type: string;
}

const source = readFileSync("src/observability/events.ts", "utf8");

const [, union = ""] = /export type Event =([^]*?);\n\n/.exec(source) ?? [];

/** The fields of each event besides `event`, by the event's name. */
export const declaredEvents: ReadonlyMap<string, readonly DeclaredField[]> = new Map(
  union
    .split(/readonly event: "/)
    .slice(1)
    .map((member) => {
      const [name = "", fields = ""] = member.split(/"(.*)/s);
      const declared = [...fields.matchAll(/readonly (\w+)(\??): ([^;}]+?)\s*[;}]/g)].map(
        ([, field = "", mark, type = ""]) => ({ name: field, isOptional: mark === "?", type }),
      );
      return [name, declared];
    }),
);
