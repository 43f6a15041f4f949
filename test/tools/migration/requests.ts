/** Requests to the app that each rate limiter limits, and the responses. */

export interface Ask {
  readonly client?: string;
  readonly user?: string;
  readonly address?: string;
  readonly path?: string;
  /** The status with which the app responds. */
  readonly status?: number;
}

export interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers: Headers;
}

/** Sends a request to an app. */
export type Send = (ask: Ask) => Promise<Answer>;

/** The limit for each `X-Client`, unless a case states another limit. */
export const defaults = { windowMs: 60_000, limit: 2 };

export const pathOf = ({ path = "/", user, status = 200 }: Ask): string => {
  const query = new URLSearchParams({ status: String(status), ...(user && { user }) });
  return `${path}?${query.toString()}`;
};

export const headersOf = ({ client = "a", address = "203.0.113.7" }: Ask): Record<string, string> => ({
  "X-Client": client,
  "CF-Connecting-IP": address,
  "X-Forwarded-For": address,
});

export const answerOf = async (response: Response): Promise<Answer> => ({
  status: response.status,
  body: await response.text(),
  headers: response.headers,
});

/** The response header in which the app states the remaining units that it reads. */
export const remainingHeader = "X-Known-Remaining";
