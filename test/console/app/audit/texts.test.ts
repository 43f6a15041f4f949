/** The sentences, differences and filters of audit entries. */
import { describe, expect, it } from "vitest";
import { differences, filteredFieldOf, filterIn, matches } from "../../../../src/console/app/audit/shown-entries.ts";
import { History } from "../../../../src/console/app/audit/history.ts";
import { groupsOf, groupText } from "../../../../src/console/app/parts/entry-groups.ts";
import { changeText } from "../../../../src/console/app/parts/rule-text.ts";
import { entry, rule } from "../audit-entries.ts";

const block = rule({
  scope: "key",
  kind: "block",
  keyId: "GVw6brpippg4",
  expiresAt: "2026-11-22T13:00:00.000Z",
});
const deny = rule({ kind: "deny", entries: ["192.0.2.1", "192.0.2.2"], note: "Scraper" });

describe("the sentence of an entry", () => {
  it.each([
    [{ after: rule() }, "set the mode of policy api to dry-run"],
    [{ after: block, note: "Abuse" }, "blocked key GVw6brpi… of policy api for 1 h (Abuse)"],
    [
      { action: "replace" as const, at: "2026-11-22T12:30:00.000Z", before: rule(), after: block },
      "changed a rule: blocked key GVw6brpi… of policy api for 30 min",
    ],
    [
      { action: "replace" as const, before: rule(), after: rule({ note: "Why" }) },
      "changed the end or the note of the rule “mode dry-run” of policy api",
    ],
    [
      { action: "delete" as const, before: deny },
      "removed the rule “2 deny entries: 192.0.2.1, 192.0.2.2” from policy api",
    ],
    [{ action: "expire" as const, before: rule() }, "ended the rule “mode dry-run” of policy api, which expired"],
    [
      { action: "rollback" as const, before: deny },
      "rolled back: removed the rule “2 deny entries: 192.0.2.1, 192.0.2.2” from policy api",
    ],
    [
      { action: "rollback" as const, after: rule({ mode: "off" }), note: "End" },
      "rolled back: set the mode of policy api to off (End)",
    ],
    [
      { after: rule({ kind: "limits", limits: [{ limit: 5, window: "1m" }, "9/h"] }) },
      "set the limits of policy api to 5/1m; 9/h",
    ],
    [
      { action: "reset" as const, policy: "api", keyId: "GVw6brpippg4" },
      "reset the usage of key GVw6brpi… of policy api",
    ],
  ])("the audit entry %o is described as: %s", (fields, text) => {
    expect(changeText(entry({ seq: 1, ...fields }))).toBe(text);
  });
});

describe("the entries of a rollback", () => {
  const rolledBack = (seq: number, from: number) => entry({ seq, action: "rollback", rollback: { to: 1, from } });
  const seqsOf = (rows: Parameters<typeof groupsOf>[0]): number[][] =>
    groupsOf(rows).map((group) => group.map(({ seq }) => seq));

  it("the entries of a rollback are one group, also with a change of another operator between them", () => {
    const rows = [rolledBack(9, 5), entry({ seq: 8 }), rolledBack(7, 5), rolledBack(6, 5), entry({ seq: 5 })];
    expect(seqsOf(rows)).toEqual([[9, 7, 6], [8], [5]]);
  });

  it("each rollback is another group, and its entries are single if an earlier version has written them", () => {
    const old = (seq: number) => entry({ seq, action: "rollback" });
    expect(seqsOf([rolledBack(8, 6), rolledBack(7, 6), rolledBack(6, 4), rolledBack(5, 4), old(4), old(3)])).toEqual([
      [8, 7],
      [6, 5],
      [4],
      [3],
    ]);
  });

  it("a group of several entries says to which state it rolled back, and a single entry says what it changed", () => {
    const removed = { before: rule(), note: "ticket 7" };
    const first = { ...rolledBack(7, 5), ...removed };
    expect(groupText([first, rolledBack(6, 5)])).toBe("rolled back to the state after entry 1 (ticket 7)");
    expect(groupText([{ ...first, rollback: { to: 0, from: 5 } }, first])).toMatch(
      /^rolled back to the state before the first change/,
    );
    expect(groupText([first])).toMatch(/^rolled back: removed the rule “mode dry-run”/);
  });
});

describe("the difference of an entry", () => {
  it("the text about a changed list shows only the entries that were added or removed", () => {
    const after = { ...deny, entries: ["192.0.2.2", "192.0.2.3"] };
    expect(differences({ before: deny, after })).toEqual([
      { field: "Entries", before: "192.0.2.1", after: "192.0.2.3" },
    ]);
  });

  it("the text about a new rule shows all its fields, and a different end or note counts as a difference", () => {
    expect(differences({ before: null, after: rule({ note: "Test" }) })).toEqual([
      { field: "Kind", before: "", after: "mode" },
      { field: "Mode", before: "", after: "dry-run" },
      { field: "Ends", before: "", after: "never" },
      { field: "Note", before: "", after: "Test" },
    ]);
    const [end] = differences({
      before: rule(),
      after: rule({ expiresAt: "2026-11-22T13:00:00Z" }),
    });
    expect(end).toMatchObject({ field: "Ends", before: "never" });
    expect(differences({ before: rule(), after: rule({ revision: 2 }) })).toEqual([]);
  });
});

describe("the entry that another one undoes", () => {
  const made = entry({ seq: 1, after: rule() });
  const off = rule({ mode: "off", revision: 2 });
  const changed = entry({ seq: 2, action: "replace", before: rule(), after: off });
  const removed = entry({ seq: 3, action: "delete", before: off });
  const history = [removed, changed, made];

  it.each([
    ["removal of a new rule", { action: "delete" as const, before: rule() }, [made], 1],
    [
      "return to the former content",
      { action: "replace" as const, before: off, after: rule({ revision: 3 }) },
      [changed, made],
      2,
    ],
    ["same rule with a new id", { after: { ...off, id: "r2", revision: 1 } }, history, 3],
  ])("an entry for a %s undoes the change before it", (_, fields, before, seq) => {
    const undo = entry({ seq: 9, ...fields });
    expect(new History([undo, ...before]).undoneBy(undo)?.seq).toBe(seq);
  });

  it.each([
    ["the removal of a rule that was changed", history, removed],
    ["a change to new content", history, changed],
    ["a new rule", history, made],
    [
      "a new rule like one that expired",
      [entry({ seq: 5, after: { ...off, id: "r2" } }), entry({ seq: 4, action: "expire" as const, before: off })],
      undefined,
    ],
  ])("an entry for %s undoes nothing", (_, entries, own = entries[0]) => {
    expect(own && new History(entries).undoneBy(own)).toBeNull();
  });
});

it("an audit filter matches by policy, actor, action and rule, and by the beginning of a key's id", () => {
  const blocked = entry({ seq: 1, after: block });
  const isMatched = (query: string): boolean => matches(blocked, filterIn(new URLSearchParams(query)));
  expect(isMatched("")).toBe(true);
  expect(isMatched("policy=api&actor=ops&action=blocked&key=GVw6&rule=r1")).toBe(true);
  expect(isMatched("action=create")).toBe(true);
  for (const query of ["policy=login", "actor=x", "action=removed", "action=delete", "key=Vw6", "rule=r2"]) {
    expect(isMatched(query)).toBe(false);
  }
});

it.each([
  [{ after: rule() }, "set the mode"],
  [{ after: rule({ kind: "limits", limits: "9/h" }) }, "set the limits"],
  [{ after: deny }, "gave"],
  [{ action: "replace" as const, before: rule(), after: block }, "changed"],
  [{ action: "delete" as const, before: deny }, "removed"],
  [{ action: "expire" as const, before: rule() }, "ended"],
  [{ action: "record" as const, policy: "api" }, "recorded"],
  [{ action: "stop-recording" as const, policy: "api" }, "stopped the recording"],
  [{ action: "rollback" as const, before: deny }, "rolled back"],
])("the audit filter offers for the entry %o the words with which its sentence begins: %s", (fields, words) => {
  const written = entry({ seq: 1, ...fields });
  expect(filteredFieldOf(written, "action")).toBe(words);
  expect(changeText(written).startsWith(words)).toBe(true);
});
