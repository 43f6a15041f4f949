/** The view "Playground": limits, traffic and links on one side, the results of each strategy on the other. */
import "./playground.css";
import "./settings/settings.css";
import { useEffect, useState } from "preact/hooks";
import {
  followUrl,
  openPreset,
  scenarioText,
  urlProblems,
  loads,
  invalidFields,
  limitsLabel,
  scenario,
} from "./page-state.ts";
import { presets } from "./model/presets.ts";
import { Results } from "./results.tsx";
import { runChanges } from "./runner.ts";
import { wranglerText } from "./model/scenario-query.ts";
import { LaneChoice, LimitsField } from "./settings/limits-field.tsx";
import { TrafficFields } from "./settings/traffic-fields.tsx";

export function PlaygroundView() {
  useEffect(() => {
    const stops = [followUrl(), runChanges()];
    return () => {
      for (const stop of stops) stop();
    };
  }, []);
  const parts = useShownParts(4);
  return (
    <div class="pg">
      <h1>Playground</h1>
      <p class="pg-intro">
        Choose limits and traffic, and see what every strategy allows. The engine that enforces your limits decides each
        request, here in your browser.
      </p>
      {parts > 1 && <Presets />}
      <UrlProblems />
      <div class="pg-columns">
        {parts > 2 && <Settings />}
        {parts > 3 && <Results />}
      </div>
    </div>
  );
}

/**
 * The number of sections to render. It grows by one each frame, because rendering all at once would be one long task.
 */
function useShownParts(most: number): number {
  const [shown, setShown] = useState(1);
  useEffect(() => {
    if (shown < most) setShown(shown + 1);
  }, [shown, most]);
  return shown;
}

function Presets() {
  // Every preset has the query that the playground itself writes, so equal texts mean the same scenario.
  const current = presets.find(({ query }) => query === scenarioText.value);
  return (
    <section class="pg-presets" aria-label="Examples">
      <div class="row">
        {presets.map(({ id, title, query }) => (
          <button key={id} type="button" aria-pressed={query === current?.query} onClick={() => openPreset(query)}>
            {title}
          </button>
        ))}
      </div>
      <p class="pg-preset-text">{current?.text ?? "Your own scenario."}</p>
    </section>
  );
}

function UrlProblems() {
  const problems = urlProblems.value;
  if (problems.length === 0) return null;
  return (
    <div class="card problem" role="alert">
      <p>Parts of the link are not valid. Their defaults are shown instead.</p>
      <ul>
        {problems.map((problem) => (
          <li key={problem}>{problem}</li>
        ))}
      </ul>
      <button type="button" onClick={() => (urlProblems.value = [])}>
        Dismiss
      </button>
    </div>
  );
}

/** On a wide screen, the settings stand beside the result. On a narrow one, they are above it and closed. */
const isWide = matchMedia("(min-width: 60rem)").matches;

/** The fields keep what is typed. They are created anew when a URL or a preset replaces everything. */
const Settings = () => (
  <details class="pg-settings" open={isWide}>
    <summary>Limits and traffic</summary>
    <form onSubmit={(event) => event.preventDefault()}>
      <div class="card" key={`limits-${loads.value}`}>
        <LimitsField />
        <LaneChoice />
      </div>
      <TrafficFields key={`traffic-${loads.value}`} />
    </form>
    <Share />
  </details>
);

function Share() {
  const text = wranglerText(scenario.value.limits);
  const invalid = invalidFields.value;
  const areLimitsOld = invalid.includes(limitsLabel);
  return (
    <section class="card pg-share" aria-label="Copy">
      <h2>Use these limits</h2>
      <div class={areLimitsOld ? "pg-old" : ""}>
        {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a part that scrolls must be reachable by keyboard */}
        <pre tabIndex={0} role="region" aria-label="The limits as wrangler.toml">
          {text}
        </pre>
      </div>
      <div class="row">
        <CopyButton label="Copy as wrangler.toml" isDisabled={areLimitsOld} textOf={() => text} />
        <CopyButton
          label="Copy link"
          isDisabled={invalid.length > 0}
          textOf={() => location.href.replace(/#.*$/, "")}
        />
      </div>
    </section>
  );
}

const shownMs = 3_000;

interface CopyButtonProps {
  readonly label: string;
  readonly isDisabled: boolean;
  readonly textOf: () => string;
}

function CopyButton({ label, isDisabled, textOf }: CopyButtonProps) {
  const [message, setMessage] = useState("");
  useEffect(() => {
    if (message === "") return undefined;
    const timer = setTimeout(() => setMessage(""), shownMs);
    return () => clearTimeout(timer);
  }, [message]);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(textOf());
      setMessage("Copied");
    } catch {
      setMessage("The browser does not allow it. Select the text and copy it.");
    }
  };
  return (
    <>
      <button type="button" disabled={isDisabled} onClick={() => void copy()}>
        {label}
      </button>
      <span role="status" class="dim">
        {message}
      </span>
    </>
  );
}
