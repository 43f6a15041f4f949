/** Takes an access log, pasted or from a file, which stays in the browser, or the sampled traffic of a policy. */
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { numberText } from "../../app/parts/text.ts";
import { changeLog, logText } from "../page-state.ts";
import { runState } from "../runner.ts";
import { textOfFile } from "./log-file.ts";
import { queryText, readText } from "../../app/api/client.ts";
import { useRead } from "../../app/api/poll.ts";
import { readPolicies } from "../../app/parts/policies.tsx";
import { session } from "../../app/shell/session.ts";

/** The text of a long log would slow the page down. */
const mostShown = 20_000;

export function LogInput() {
  const id = useId();
  const [problem, setProblem] = useState<string | null>(null);
  const text = logText.value ?? "";
  const isCut = text.length > mostShown;
  const accept = (file: File | undefined): void => {
    if (file !== undefined) void takeLog(textOfFile(file)).then(setProblem);
  };
  return (
    <DropArea onFile={accept}>
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
          <input type="file" class="hidden" onChange={(event) => accept(event.currentTarget.files?.[0])} />
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

/** Returns the problem; null after success. */
async function takeLog(text: Promise<string>): Promise<string | null> {
  try {
    changeLog(await text);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function DropArea({
  onFile,
  children,
}: {
  readonly onFile: (file: File | undefined) => void;
  readonly children: ComponentChildren;
}) {
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
        {numberText(log.read)} {log.read === 1 ? "line" : "lines"} read, {numberText(log.unread)} unreadable.
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
  const [isReading, setIsReading] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const name = chosen === "" ? policies[0]?.name : chosen;
  if (name === undefined) return null;
  const use = async (): Promise<void> => {
    setIsReading(true);
    setProblem(null);
    setProblem(await takeLog(readText(`samples${queryText({ policy: name })}`)));
    setIsReading(false);
  };
  return (
    <div class="field">
      <label for={id}>Sampled traffic of a policy</label>
      <div class="row">
        <select id={id} value={name} onChange={({ currentTarget: { value } }) => setChosen(value)}>
          {policies.map((policy) => (
            <option key={policy.name}>{policy.name}</option>
          ))}
        </select>
        <button type="button" disabled={isReading} onClick={() => void use()}>
          {isReading ? "Reading …" : "Use the last 24 hours"}
        </button>
      </div>
      <p class="problem" role="alert">
        {problem}
      </p>
    </div>
  );
}
