/** Copies the limits as configuration, and the link to what is shown. */
import { useEffect, useState } from "preact/hooks";
import { invalidFields, limitsLabel, scenario } from "./page-state.ts";
import { wranglerText } from "./model/wrangler-text.ts";

export function Share() {
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
