/** The rules of a key, with their ends. */
import type { Rule } from "../api/answers.ts";
import { CountDown } from "../parts/count-down.tsx";
import { changedAt, ruleText } from "../parts/rule-text.ts";
import { Empty } from "../parts/notice.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { instantText } from "../parts/text.ts";
import { may } from "../shell/session.ts";
import type { Opened } from "./key-state.ts";

interface RulesProps {
  readonly rules: readonly Rule[];
  readonly onOpen: (opened: Opened) => void;
}

const stateTexts: Readonly<Record<Rule["state"], string>> = {
  applied: "in effect",
  pending: "waits for the object of the key",
  orphan: "without effect: the policy or KEY_SECRET has changed",
};

const stateClasses: Readonly<Record<Rule["state"], string>> = {
  applied: "allowed",
  pending: "warning",
  orphan: "denied",
};

const columns: readonly Column<Rule>[] = [
  { title: "Rule", cell: ruleText },
  {
    title: "State",
    cell: ({ state }) => <span class={stateClasses[state]}>{stateTexts[state]}</span>,
  },
  {
    title: "Ends",
    cell: ({ expiresAt }) => (expiresAt === null ? "when it is removed" : <CountDown until={expiresAt} />),
  },
  {
    title: "By",
    cell: (rule) => {
      const at = changedAt(rule);
      return <span title={at === null ? undefined : instantText(at)}>{rule.actor}</span>;
    },
  },
  { title: "Note", cell: ({ note }) => note ?? "–" },
];

export const RulesOfKey = ({ rules, onOpen }: RulesProps) => (
  <section class="card" aria-label="Rules of this key">
    <h2>Rules of this key</h2>
    {rules.length === 0 ? (
      <Empty>No rule. The key has the limits of its policy.</Empty>
    ) : (
      <Table
        caption="Rules of this key"
        columns={may("write") ? [...columns, changesColumn(onOpen)] : columns}
        rows={rules}
        keyOf={({ id }) => id}
      />
    )}
  </section>
);

const changesColumn = (onOpen: RulesProps["onOpen"]): Column<Rule> => ({
  title: "Change",
  cell: (rule) => (
    <span class="row">
      <button type="button" aria-label={`Extend: ${ruleText(rule)}`} onClick={() => onOpen({ kind: "extend", rule })}>
        Extend …
      </button>
      <button type="button" aria-label={`Remove: ${ruleText(rule)}`} onClick={() => onOpen({ kind: "remove", rule })}>
        Remove …
      </button>
    </span>
  ),
});
