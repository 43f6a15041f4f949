/** One key: what would happen to it now and why, its rules, and what an operator can do for it or against it. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Policy, RulePage } from "../api/answers.ts";
import { useChanges } from "../api/changes.ts";
import { queryText, read } from "../api/client.ts";
import { usePolled } from "../api/poll.ts";
import { Failure, Loading } from "../parts/notice.tsx";
import { Actions } from "./actions.tsx";
import { OpenedDialog } from "./dialogs.tsx";
import { ExplanationCard } from "./explanation.tsx";
import type { Opened } from "./key-state.ts";
import { explainKey, keyName } from "./known-keys.ts";
import { RulesOfKey } from "./rules-of-key.tsx";

const explanationPauseMs = 2_000;
const rulesPauseMs = 5_000;

export function KeyPage({ policy, id }: { readonly policy: Policy; readonly id: string }) {
  const [opened, setOpened] = useState<Opened | null>(null);
  const explained = usePolled((abort) => explainKey(policy.name, id, abort), explanationPauseMs);
  const ruled = usePolled(
    async (abort) => (await read<RulePage>(`rules${queryText({ policy: policy.name, id })}`, abort)).rules,
    rulesPauseMs,
  );
  useChanges(explained.readAgain);
  useChanges(ruled.readAgain);
  const readAgain = (): void => {
    explained.readAgain();
    ruled.readAgain();
  };
  const explanation = explained.value.value;
  const rules = ruled.value.value;
  const problem = explained.problem.value ?? ruled.problem.value;
  const state = explanation === null || rules === null ? null : { policy, id, explanation, rules, readAgain };
  return (
    <>
      <Heading policy={policy.name} id={id} />
      {state === null && problem !== null && <Failure problem={problem} onRetry={readAgain} />}
      {state === null && problem === null && <Loading what="the explanation" />}
      {state !== null && (
        <>
          <ExplanationCard {...state} />
          <Actions onOpen={setOpened} />
          <RulesOfKey rules={state.rules} onOpen={setOpened} />
          {opened !== null && <OpenedDialog opened={opened} state={state} onClose={() => setOpened(null)} />}
        </>
      )}
    </>
  );
}

/** Gets the focus when the page of a key is opened. */
function Heading({ policy, id }: { readonly policy: string; readonly id: string }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <header class="key-heading">
      <h2 ref={heading} tabIndex={-1}>
        Key <span class="id">{keyName(policy, id)}</span>
      </h2>
      <p class="dim">
        Id <span class="id">{id}</span>
      </p>
    </header>
  );
}
