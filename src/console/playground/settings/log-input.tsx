/** Takes an access log, pasted or from a file, which stays in the browser, or the sampled traffic of a policy. */
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { countOf, numberText } from "../../app/parts/text.ts";
import { changeLog, logText } from "../page-state.ts";
import { runState } from "../runner.ts";
import { textOfFile } from "./log-file.ts";
import { errorOf, queryText, readText } from "../../app/api/client.ts";
import { useRead } from "../../app/api/poll.ts";
import { useAction } from "../../app/parts/action.ts";
import { readPolicies } from "../../app/parts/policies.tsx";
import { session } from "../../app/shell/session.ts";

/** The text of a long log would slow the page down. */
const mostShown = 20_000;

export function LogInput() {
  const id = useId();
  const [problem, setProblem] = useState<string | null>(null);
  const text = logText.value ?? "";
  const isCut = text.length > mostShown;
  const accept = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return;
    try {
      changeLog(await textOfFile(file));
      setProblem(null);
    } catch (error) {
      setProblem(errorOf(error).message);
    }
  };
  return (
    <DropArea onFile={(file) => void accept(file)}>
      <label for={id}>Access log</label>
      <textarea
        id={id}
        rows={5}
        spellcheck={false}
        placeholder="Paste lines here, or drop a file."
        value={isCut ? `${text.slice(0, mostShown)}\n…` : text}
        readOnly={isCut}
        onPaste={(event) => {
          if (!isCut) return;
          event.preventDefault();
          changeLog(event.clipboardData?.getData("text/plain") || null);
        }}
        aria-describedby={`${id}-hint`}
        onInput={(event) => !isCut && changeLog(event.currentTarget.value || null)}
      />
      <div class="row">
        <label class="button pg-file">
          Choose a file
          <input type="file" class="hidden" onChange={(event) => void accept(event.currentTarget.files?.[0])} />
        </label>
        <button type="button" disabled={text === ""} onClick={() => changeLog(null)}>
          Clear
        </button>
      </div>
      <p class="problem" role="alert">
        {problem}
      </p>
      <SampleInput />
      <LogReport />
      <p id={`${id}-hint`} class="hint">
        Any format that npm run what-if reads, such as the combined log format, JSON or CSV; or samples of a deployment
        (the answer of GET /api/samples). Also compressed with gzip. Times are shown in UTC; a time without a zone
        counts as UTC. {isCut && "Only its beginning is shown; pasting replaces all of it. "}The log stays in this
        browser and is not part of the link.
      </p>
    </DropArea>
  );
}

interface DropAreaProps {
  readonly onFile: (file: File | undefined) => void;
  readonly children: ComponentChildren;
}

function DropArea({ onFile, children }: DropAreaProps) {
  const [isOver, setIsOver] = useState(false);
  const follow = (event: DragEvent, isInside: boolean): void => {
    event.preventDefault();
    setIsOver(isInside);
  };
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- the button does the same by keyboard
    <div
      class={isOver ? "pg-log pg-over-file" : "pg-log"}
      role="group"
      aria-label="Access log"
      onDragOver={(event) => follow(event, true)}
      onDragLeave={(event) => follow(event, false)}
      onDrop={(event) => {
        follow(event, false);
        onFile(event.dataTransfer?.files[0]);
      }}
    >
      {children}
    </div>
  );
}

function LogReport() {
  const { log } = runState.value;
  if (log === null) return null;
  return (
    <div role="status">
      <p class={log.read === 0 ? "problem" : ""}>
        {countOf(log.read, "line")} read, {numberText(log.unread)} unreadable.
      </p>
      {log.unread > 0 && (
        <details>
          <summary>Unreadable lines</summary>
          <ul class="pg-unread">
            {log.firstUnread.map(({ line, reason }) => (
              <li key={line}>
                Line {line}: {reason}
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

/** Only operators have it: the playground needs no credentials. */
const SampleInput = () => (session.value.kind === "signed-in" ? <PolicySamples /> : null);

function PolicySamples() {
  const id = useId();
  const policies = useRead(readPolicies, []) ?? [];
  const [chosen, setChosen] = useState("");
  const name = chosen === "" ? policies[0]?.name : chosen;
  const { run, isRunning, problem } = useAction(async () =>
    changeLog(await readText(`samples${queryText({ policy: name })}`)),
  );
  if (name === undefined) return null;
  return (
    <div class="field">
      <label for={id}>Sampled traffic of a policy</label>
      <div class="row">
        <select id={id} value={name} onChange={({ currentTarget: { value } }) => setChosen(value)}>
          {policies.map((policy) => (
            <option key={policy.name}>{policy.name}</option>
          ))}
        </select>
        <button type="button" disabled={isRunning} onClick={() => void run()}>
          {isRunning ? "Reading …" : "Use the last 24 hours"}
        </button>
      </div>
      <p class="problem" role="alert">
        {problem?.message}
      </p>
    </div>
  );
}
