/** What a person sees when the Worker runs: where it is, what to try, and where the limits are set or wrong. */

export interface Running {
  readonly url: string;
  readonly checkPath: string;
  readonly token: string;
  readonly isDemoOrigin: boolean;
  readonly isDemoPolicy: boolean;
}

export function welcome({ url, checkPath, token, isDemoOrigin, isDemoPolicy }: Running): string {
  const check = `${url}${checkPath}`;
  const authorization = `-H "Authorization: Bearer ${token}"`;
  const origin = isDemoOrigin ? "a demo origin, until you set ORIGIN" : "your ORIGIN";
  const limits = isDemoPolicy
    ? "5 requests per 10 seconds for each client address: a demo, until you set LIMITS or POLICIES"
    : "as you set them";
  return `
Headgate is running at ${url}

  in front of   ${origin}
  limits        ${limits}
  configured in wrangler.toml, under [vars]; secrets in .dev.vars (restart after a change)

Try, and run the first one six times:

  curl -i ${url}/hello
  curl -s ${authorization} "${check}?key=127.0.0.1"
  curl -s ${authorization} -H "Content-Type: application/json" -d '{"key": "203.0.113.7", "cost": 2}' ${check}
  curl -s ${authorization} -X DELETE -i "${check}?key=127.0.0.1"

Stop with Ctrl-C.
`;
}

/** Instead of a welcome, while the configuration is broken. */
export function complaint(url: string, problems: readonly string[]): string {
  return `
Headgate is running at ${url}, but answers everything with 500 until its configuration is mended:

${problems.map((problem) => `  ${problem}`).join("\n")}

Mend it in wrangler.toml, under [vars], or in .dev.vars. Stop with Ctrl-C.
`;
}
